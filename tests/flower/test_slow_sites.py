"""Slow sites: a round closes at its deadline with the answers that are there; what comes late is used or refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import feddc
from tests.flower.test_faults import EVERYONE, grid_of, without
from tests.flower.test_parity import coordinator, simulated


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    caplog.set_level(logging.INFO, "flwr")
    return lambda: "\n".join(record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("slow", [0, 2])
def test_a_slow_site_does_not_cost_the_answers_of_the_fast_ones(slow: int, tmp_path: Path) -> None:
    """Read in client order, those behind the slow one were fetched after the life of their messages."""
    run = coordinator(feddc.FedDC(), tmp_path, rounds=1, answer_within=0.5, **EVERYONE)
    grid_of(run).slow = {slow}
    [record] = run.run()
    fast = tuple(client for client in range(5) if client != slow)
    assert record.participants == fast
    assert record.dropped == (slow,)
    assert record.rejected == ()
    assert record.bytes_up == 4 * record.sites[fast[0]].bytes_up  # what was lost is not counted
    assert [site.bytes_up > 0 for site in record.sites] == [client != slow for client in range(5)]


def test_what_comes_late_is_refused_and_the_client_does_not_run_ahead(tmp_path: Path, said: Callable[[], str]) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, answer_within=0.3, **EVERYONE)
    run.questions.patience = 1e9  # it is not asked anew, however slow this machine is
    grid, taken_part = grid_of(run), []
    grid.slow = {2}
    for record in run.run():
        taken_part.append(record.participants)
        grid.slow = set()  # its answer to round 1 arrives in round 2
    assert taken_part == [(0, 1, 3, 4)] * 2 + [(0, 1, 2, 3, 4)] * 2
    assert "the answer of client 2 in round 1 is not used: it came too late, in round 2" in said()
    mask = without(2, round=1)
    mask[1, 2] = 0
    _, simulation = simulated(feddc.FedDC(), participation=None, cohorts=mask)
    torch.testing.assert_close(run.progress.server, simulation.server, rtol=1e-5, atol=1e-6)


def test_what_comes_late_is_used_in_the_round_in_which_it_arrives(tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(correction=False), tmp_path, answer_within=0.3, late="use", **EVERYONE)
    run.questions.patience = 1e9
    grid, taken_part = grid_of(run), []
    grid.slow = {2}
    for record in run.run():
        taken_part.append(record.participants)
        grid.slow = set()
    assert taken_part == [(0, 1, 3, 4)] + [(0, 1, 2, 3, 4)] * 3
    assert run.progress.seen == dict.fromkeys(range(5), 4)
    drifts = [feddc_state(tmp_path, client).drift for client in range(5)]  # the law holds over late answers too
    torch.testing.assert_close(run.progress.server.drift, torch.stack(drifts).mean(0), rtol=1e-4, atol=1e-6)


def feddc_state(folder: Path, client: int) -> object:
    from feddc.algorithms.feddc import Client
    from feddc.storage import tensors

    [*_, last] = sorted((folder / "clients").glob(f"*/client-{client}/*.safetensors"))
    found, _ = tensors.read(last)
    return Client(**found)


def test_a_late_answer_is_not_used_where_the_mean_gradient_has_moved_on(tmp_path: Path) -> None:
    with pytest.raises(feddc.ConfigError, match="late=use needs a method that sends only the model: feddc also sends"):
        coordinator(feddc.FedDC(), tmp_path, late="use")


def test_a_round_needs_min_answers(tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, answer_within=0.2, min_answers=4, **EVERYONE)
    grid_of(run).slow = {1, 3}
    with pytest.raises(feddc.RunError, match=r"^round 1 has 3 answers that can be used, but min-answers is 4"):
        list(run.run())
    again = coordinator(feddc.FedDC(), tmp_path, answer_within=0.2, min_answers=3, **EVERYONE)
    assert len(list(again.run())) == 4
