"""Updates that must not get in, clients that never answer, and the laws that hold all the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

import feddc
from feddc.engine.executors import Parts, Trained, part_size, parts
from feddc.engine.screening import bad_rows
from feddc.models import Buffers
from tests.conftest import FAST, make_federation

SIZES = [20, 13, 30, 9, 17]
METHODS = [feddc.FedAvg(), feddc.FedProx(), feddc.Scaffold(), feddc.FedDyn(), feddc.FedDC(), feddc.FedYogi()]


def make(algorithm: Any, **options: Any) -> feddc.Simulation:
    torch.manual_seed(0)
    settings: dict[str, Any] = {"rounds": 4, "training": FAST, "executor": "in-process"}
    return feddc.Simulation(algorithm, nn.Linear(6, 3), make_federation(SIZES), **settings | options)


def poison(simulation: feddc.Simulation, spoil: Callable[[Sequence[int], Trained], Trained]) -> None:
    """Let clients come back with something else than what they trained."""
    train = simulation.executor.train

    def spoilt(clients: Sequence[int], *rest: Any) -> Parts:
        size = part_size(simulation.server.model.nbytes)
        for some, trained in zip(parts(clients, size), train(clients, *rest), strict=True):
            yield spoil(some, trained)

    simulation.executor.train = spoilt  # type: ignore[method-assign]


def setting(bad: dict[int, float]) -> Callable[[Sequence[int], Trained], Trained]:
    def spoil(clients: Sequence[int], trained: Trained) -> Trained:
        for row, client in enumerate(clients):
            if client in bad:
                trained.params[row, 3] = bad[client]
        return trained

    return spoil


@pytest.mark.parametrize("rows", [1, 2, 1000])
@pytest.mark.parametrize("algorithm", METHODS, ids=repr)
def test_a_bad_update_is_as_if_its_client_had_not_been_there(
    algorithm: Any, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("feddc.engine.executors.base.PART_BYTES", rows * 21 * 4)  # the model has 21 parameters
    simulation = make(algorithm, on_bad_update="reject", rounds=2)
    poison(simulation, setting({1: float("nan"), 3: float("inf"), 4: 1e12}))
    records = list(simulation.run())
    others = make(algorithm, cohorts=np.array([[1, 0, 1, 0, 0]] * 2), rounds=2)
    clean = list(others.run())
    rounding = 1e-6 if rows == 2 else 0  # those who are left share parts with others, so sums are formed differently
    torch.testing.assert_close(simulation.server.model, others.server.model, rtol=rounding, atol=rounding)
    assert [r.accuracy for r in records] == [r.accuracy for r in clean]
    assert records[0].participants == (0, 2)
    assert records[1].rejected == (
        feddc.Rejected(1, "NaN or Inf"),
        feddc.Rejected(3, "NaN or Inf"),
        feddc.Rejected(4, "numbers above 1e+08"),
    )
    assert (records[0].bytes_up, records[0].bytes_down) == (5 * clean[0].bytes_up / 2, 5 * clean[0].bytes_down / 2)
    everyone = range(len(SIZES))
    for mine, theirs in zip(simulation.store.gather(everyone), others.store.gather(everyone), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=rounding, atol=rounding)  # the rejected are as they were


@pytest.mark.parametrize("robust", ["norm:0.7", "median"])
def test_a_bad_update_is_left_out_before_the_others_are_guarded(robust: str) -> None:
    simulation = make(feddc.FedDC(), on_bad_update="reject", rounds=2, robust=robust)
    poison(simulation, setting({1: float("nan"), 4: 1e12}))
    records = list(simulation.run())
    others = make(feddc.FedDC(), cohorts=np.array([[1, 0, 1, 1, 0]] * 2), rounds=2, robust=robust)
    list(others.run())
    assert [record.participants for record in records] == [(0, 2, 3)] * 2
    assert [each.client for each in records[1].rejected] == [1, 4]
    torch.testing.assert_close(simulation.server.model, others.server.model, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda t: Trained(t.params[:, 1:], t.buffers), r"parameters of shape \(5, 20\).*, not \(5, 21\)"),
        (lambda t: Trained(t.params.double(), t.buffers), "type torch.float64"),
        (lambda t: Trained(t.params, Buffers(torch.zeros(5, 1), t.buffers.ints)), r"floats of shape \(5, 1\)"),
    ],
)
def test_updates_of_the_wrong_shape_or_type(spoil: Callable[[Trained], Trained], words: str) -> None:
    simulation = make(feddc.FedDC(), on_bad_update="reject", rounds=1)
    poison(simulation, lambda _, trained: spoil(trained))
    before = simulation.server.model.clone()
    [record] = simulation.run()
    assert record.participants == ()
    assert [each.client for each in record.rejected] == [0, 1, 2, 3, 4]
    assert torch.equal(simulation.server.model, before)  # nobody is left, so nothing moves
    stopping = make(feddc.FedDC(), rounds=1)
    poison(stopping, lambda _, trained: spoil(trained))
    with pytest.raises(feddc.DivergedError, match=words):
        list(stopping.run())


@pytest.mark.parametrize(("value", "words"), [(float("nan"), "NaN or Inf"), (-1e9, r"numbers above 1e\+08")])
def test_by_default_a_bad_update_stops_the_run(value: float, words: str) -> None:
    simulation = make(feddc.Scaffold())
    poison(simulation, setting({2: value}))
    with pytest.raises(feddc.DivergedError, match=f"scaffold diverged: client 2 has {words} in round 1; try"):
        simulation.step()
    with pytest.raises(feddc.RunError, match="round 1 was not finished"):
        simulation.state()


def test_only_parameters_above_a_hundred_million_are_absurd() -> None:
    params = torch.tensor([[1e8, 0], [0, -1e8], [0, 100_000_000.5], [-100_000_000.5, 0]], dtype=torch.float64)
    assert bad_rows([5, 6, 7, 8], params, ()) == tuple(feddc.Rejected(i, "numbers above 1e+08") for i in (7, 8))
    assert bad_rows([5, 6], params[:2], (params[2:],)) == ()  # what else is sent may be as large as it likes


def test_a_state_that_overflows_is_bad_even_if_the_parameters_are_not() -> None:
    """The variate is delta / (K·lr)."""
    training = feddc.LocalTraining(epochs=1, batch_size=8, lr=1e-40, weight_decay=0.0)
    simulation = make(feddc.Scaffold(), training=training, on_bad_update="reject", rounds=1)
    poison(simulation, lambda _, trained: Trained(trained.params + 1, trained.buffers))
    [record] = simulation.run()
    assert len(record.rejected) == 5
    assert torch.isfinite(simulation.server.variate).all()


def test_dropouts_are_the_same_for_every_method_and_cost_what_they_were_sent() -> None:
    runs = [list(make(each, rounds=8, dropout=0.4).run()) for each in METHODS]
    assert len({tuple(r.dropped for r in run) for run in runs}) == 1
    everyone = [list(make(METHODS[0], rounds=8).run())][0]
    for record, full in zip(runs[0], everyone, strict=True):
        assert sorted((*record.participants, *record.dropped)) == [0, 1, 2, 3, 4]
        assert record.bytes_down == full.bytes_down
        assert record.bytes_up == full.bytes_up * len(record.participants) / 5
    assert 5 < sum(len(r.dropped) for r in runs[0]) < 30


def test_whoever_drops_out_was_sent_the_buffers_too() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    options: dict[str, Any] = {"rounds": 6, "training": FAST, "dropout": 0.5}
    for record in feddc.simulate(feddc.FedAvg(), model, make_federation(SIZES), **options):
        one = 4 * (6 * 4 + 4 + 2 * 4 + 4 * 3 + 3) + 4 * 2 * 4 + 8  # parameters, running means and variances, a counter
        assert (record.bytes_down, record.bytes_up) == (5 * one, len(record.participants) * one)


def test_when_nobody_answers_the_server_stays() -> None:
    simulation = make(feddc.FedDC(), rounds=30, dropout=0.9)
    before = simulation.server
    for record in simulation.run():
        if not record.participants:
            assert simulation.server is before
        before = simulation.server
    assert record.accuracy is not None


CASES = st.tuples(st.integers(0, 10**6), st.floats(0, 0.9), st.lists(st.integers(0, 4), max_size=3))


@settings(max_examples=40, deadline=None)
@given(CASES)
def test_conservation_under_dropout_and_rejection(case: tuple[int, float, list[int]]) -> None:
    """The server's running sums stay the means over all clients, whoever is missing."""
    seed, dropout, bad = case
    options: dict[str, Any] = {"participation": 0.7, "dropout": dropout, "seed": seed, "on_bad_update": "reject"}
    for algorithm in (feddc.FedDC(alpha=0.1), feddc.FedDyn(alpha=0.1), feddc.Scaffold(form="feddc")):
        simulation = make(algorithm, **options)
        poison(simulation, setting(dict.fromkeys(bad, float("nan"))))
        list(simulation.run())
        state, server = simulation.store.gather(range(5)), simulation.server
        if hasattr(server, "drift"):
            torch.testing.assert_close(server.drift, state.drift.mean(dim=0), rtol=1e-4, atol=1e-5)
        if hasattr(server, "variate"):
            variate = (simulation.weights * state.variate).mean(dim=0)
            torch.testing.assert_close(server.variate, variate, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dropout": 1.0}, "dropout must be below 1"),
        ({"dropout": -0.1}, "dropout must be at least 0"),
        ({"dropout": float("nan")}, "dropout must be"),
        ({"on_bad_update": "ignore"}, "unknown on_bad_update 'ignore': choose from reject, stop"),
    ],
)
def test_bad_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(feddc.ConfigError, match=words):
        make(feddc.FedAvg(), **options)
