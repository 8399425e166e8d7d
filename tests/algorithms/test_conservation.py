"""Laws that hold after any sequence of cohorts: the server's running sums are means over all clients."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

import feddc
from tests.conftest import FAST, make_federation

SIZES = st.lists(st.integers(3, 25), min_size=2, max_size=6)


@st.composite
def masks(draw: st.DrawFn) -> tuple[list[int], np.ndarray]:
    sizes = draw(SIZES)
    rounds = draw(st.integers(1, 4))
    rows = [draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)).filter(any)) for _ in range(rounds)]
    return sizes, np.array(rows)


def run(algorithm: object, sizes: list[int], mask: np.ndarray) -> feddc.Simulation:
    torch.manual_seed(0)
    simulation = feddc.Simulation(
        algorithm,  # type: ignore[arg-type]
        nn.Linear(6, 3),
        make_federation(sizes),
        rounds=len(mask),
        cohorts=mask,
        training=FAST,
    )
    list(simulation.run())
    return simulation


def close(left: torch.Tensor, right: torch.Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(masks(), st.sampled_from(["own", "nominal"]))
def test_feddc_drift_and_variate(case: tuple[list[int], np.ndarray], steps: str) -> None:
    simulation = run(feddc.FedDC(alpha=0.1, steps=steps), *case)  # type: ignore[arg-type]
    state = simulation.store.gather(range(len(case[0])))
    close(simulation.server.drift, state.drift.mean(dim=0))
    close(simulation.server.variate, (simulation.weights * state.variate).mean(dim=0))


@settings(max_examples=25, deadline=None)
@given(masks())
def test_feddyn_drift(case: tuple[list[int], np.ndarray]) -> None:
    simulation = run(feddc.FedDyn(alpha=0.1), *case)
    close(simulation.server.drift, simulation.store.gather(range(len(case[0]))).drift.mean(dim=0))


@settings(max_examples=25, deadline=None)
@given(masks(), st.sampled_from(["original", "feddc", "weighted"]))
def test_scaffold_variate(case: tuple[list[int], np.ndarray], form: str) -> None:
    simulation = run(feddc.Scaffold(form=form), *case)  # type: ignore[arg-type]
    state = simulation.store.gather(range(len(case[0])))
    weights = 1 if form == "original" else simulation.weights
    close(simulation.server.variate, (weights * state.variate).mean(dim=0))


@settings(max_examples=25, deadline=None)
@given(masks())
def test_clients_that_never_took_part_keep_their_first_state(case: tuple[list[int], np.ndarray]) -> None:
    simulation = run(feddc.FedDC(alpha=0.1), *case)
    for client in np.flatnonzero(~case[1].any(axis=0)):
        assert not simulation.store.gather([int(client)]).drift.any()
