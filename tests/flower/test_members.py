"""Sites that join, leave, and get more samples: the server's means stay those of its members' states."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import feddc
from feddc.engine.membership import over_all
from feddc.flower import client_app
from feddc.flower.client.memory import ClientMemory
from feddc.flower.samples import Samples
from tests.flower import task
from tests.flower.fake import FakeGrid
from tests.flower.test_faults import EVERYONE, changed, grid_of
from tests.flower.test_parity import coordinator, simulated

METHODS = [feddc.FedDC(alpha=0.1), feddc.Scaffold(), feddc.Scaffold(form="feddc"), feddc.FedDyn(alpha=0.1)]


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    caplog.set_level(logging.INFO, "flwr")
    return lambda: "\n".join(record.getMessage() for record in caplog.records)


def check_law(run: Any, folder: Path) -> None:
    """server = Σ (ω_i) state_i / N over the members, each with the state that the server knows of."""
    progress = run.progress
    mean = sum(progress.samples.values()) / len(progress.samples)
    states = {}
    for client in progress.samples:
        memory = ClientMemory(folder / "clients" / progress.id / f"client-{client}")
        states[client] = run.shape.client
        if seen := progress.seen.get(client):
            states[client], _, _ = memory._read(seen, run.shape.client)
    for name, weighted in over_all(run.algorithm).items():
        rows = [
            getattr(states[client], name) * (n / mean if weighted else 1.0) for client, n in progress.samples.items()
        ]
        found = getattr(progress.server, name)
        torch.testing.assert_close(found, torch.stack(rows).mean(0), rtol=1e-4, atol=1e-5)
        assert found.norm() > 0 or not progress.seen


def with_client(grid: FakeGrid, client: int, present: bool) -> None:
    grid.nodes = {node: each for node, each in grid.nodes.items() if each != client}
    if present:
        grid.nodes = {**grid.nodes, 5000 + client: client}


@pytest.mark.parametrize("algorithm", METHODS, ids=str)
def test_a_site_that_joins_later_starts_from_zero_and_counts_from_then_on(
    algorithm: Any, tmp_path: Path, said: Callable[[], str]
) -> None:
    run = coordinator(algorithm, tmp_path, clients=4, rounds=5, **EVERYONE)
    with_client(grid_of(run), 4, present=False)
    taken_part = []
    for record in run.run():
        taken_part.append(record.participants)
        check_law(run, tmp_path)
        if record.round == 2:
            with_client(grid_of(run), 4, present=True)
    assert taken_part == [(0, 1, 2, 3)] * 2 + [(0, 1, 2, 3, 4)] * 3
    assert "client 4 joins with 17 samples" in said()
    assert [site.client for site in record.sites] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("algorithm", METHODS, ids=str)
def test_a_site_that_is_away_for_too_long_is_dropped_and_all_begin_from_zero(
    algorithm: Any, tmp_path: Path, said: Callable[[], str]
) -> None:
    run = coordinator(algorithm, tmp_path, rounds=5, leave_after=0.001, **EVERYONE)
    members = []
    for record in run.run():
        members.append(sorted(run.progress.samples))
        check_law(run, tmp_path)
        if record.round == 2:
            with_client(grid_of(run), 3, present=False)
        if record.round == 4:
            with_client(grid_of(run), 3, present=True)
    assert members == [[0, 1, 2, 3, 4]] * 3 + [
        [0, 1, 2, 4],
        [0, 1, 2, 3, 4],
    ]  # noticed in one round, dropped in the next
    assert "client 3 was away for too long and is no member any more" in said()
    assert record.participants == (0, 1, 2, 3, 4)


def test_a_site_that_is_away_for_a_while_stays_a_member(tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, **EVERYONE)
    for record in run.run():
        with_client(grid_of(run), 3, present=record.round != 1)
        assert sorted(run.progress.samples) == [0, 1, 2, 3, 4]
        check_law(run, tmp_path)


GROWING = {"rows": 10}


def growing(node: Mapping[str, Any]) -> Samples:
    x, y = task.load_client(node)
    rows = GROWING["rows"] if node["partition-id"] == 2 else len(y)
    return Samples(x[:rows], y[:rows])


@pytest.mark.parametrize("algorithm", METHODS, ids=str)
def test_samples_may_be_added_between_runs(algorithm: Any, tmp_path: Path, said: Callable[[], str]) -> None:
    grid = FakeGrid(client_app(growing, task.make_model), 5, tmp_path / "clients")
    for rounds, rows in ((2, 10), (4, 25), (5, 12)):
        GROWING["rows"] = rows
        run = coordinator(algorithm, tmp_path, rounds=rounds, **EVERYONE)
        run.members.grid = run.questions.grid = grid
        for record in run.run():
            assert record.participants == (0, 1, 2, 3, 4)
            assert record.sites[2].samples == rows
            check_law(run, tmp_path)
    assert "client 2 has 25 samples now, and had 10" in said()


def test_an_answer_with_other_samples_than_announced_is_refused_and_counts_next_time(tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, rounds=3, **EVERYONE)
    told = []
    for record in run.run():
        told.append((record.participants, record.sites[1].samples))
        number = {1: 14}.get(record.round)
        grid_of(run).tamper = lambda client, reply, number=number: (
            changed(reply, samples=number) if number and client == 1 and "round" in reply.content["config"] else reply
        )
    assert told[0] == ((0, 1, 2, 3, 4), 13)
    assert told[1][0] == (0, 2, 3, 4)
    assert told[2][1] == 14


def test_a_newcomer_with_other_classes_is_refused(tmp_path: Path, said: Callable[[], str]) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, clients=4, rounds=3, **EVERYONE)
    grid = grid_of(run)
    with_client(grid, 4, present=False)
    for record in run.run():
        assert record.participants == (0, 1, 2, 3)
        with_client(grid, 4, present=True)
        grid.tamper = lambda client, reply: (
            changed(reply, classes=["strange"]) if client == 4 and "classes" in reply.content["config"] else reply
        )
    assert "client 4 has other columns or classes than the members agreed on" in said()


def test_where_updates_are_guarded_the_members_stay_those_of_the_beginning(
    tmp_path: Path, said: Callable[[], str]
) -> None:
    run = coordinator(feddc.FedAvg(), tmp_path, clients=4, rounds=3, robust="median", **EVERYONE)
    with_client(grid_of(run), 4, present=False)
    for record in run.run():
        assert record.participants == (0, 1, 2, 3)
        with_client(grid_of(run), 4, present=True)
    assert "client 4 joins or has other samples than before, but with robust, privacy or secure" in said()
    assert 4 not in run.members.nodes


@pytest.mark.parametrize("algorithm", METHODS, ids=str)
def test_the_simulator_replays_who_came_and_went(algorithm: Any, tmp_path: Path) -> None:
    run = coordinator(algorithm, tmp_path, clients=4, rounds=5, leave_after=0.001, **EVERYONE)
    with_client(grid_of(run), 4, present=False)
    members, asked = [], []
    for record in run.run():
        members.append([client in run.progress.samples for client in range(5)])
        asked.append([client in record.participants for client in range(5)])
        with_client(grid_of(run), 4, present=record.round >= 2)
        with_client(grid_of(run), 1, present=record.round < 3)
    assert members[0] == [True] * 4 + [False]
    assert members[-1] == [True, False, True, True, True]
    if not algorithm.fixed_steps:  # their number of steps is that of the members' mean, here of all clients
        _, simulation = simulated(algorithm, rounds=5, participation=None, cohorts=asked, arrivals=members)
        torch.testing.assert_close(run.progress.server, simulation.server, rtol=1e-4, atol=1e-5)
