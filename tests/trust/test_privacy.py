"""Clipping, noise and the accounting of both."""

from __future__ import annotations

import math

import dp_accounting
import dp_accounting.rdp
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from feddc.errors import ConfigError
from feddc.trust.privacy import ORDERS, Budget, Draws, clipped, make_privacy, noise_like, planned

EVERYONE = Draws(clients=20, size=20, random=True, fixed=False)
POISSON = Draws(clients=20, size=6, random=True, fixed=False)
FIXED = Draws(clients=20, size=6, random=True, fixed=True)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), st.floats(0.01, 100))
def test_rows_are_at_most_as_long_as_the_clip(row: list[float], clip: float) -> None:
    delta = torch.tensor([row, [0.0, 0.0, 0.0]])
    used, factor = clipped(delta, clip)
    assert torch.linalg.vector_norm(used, dim=1).max() <= clip * (1 + 1e-5)
    torch.testing.assert_close(used, factor * delta)
    if float(torch.linalg.vector_norm(delta[0], dtype=torch.float64)) <= clip:
        assert torch.equal(used, delta)


def test_a_row_that_is_not_finite_counts_as_nothing() -> None:
    used, factor = clipped(torch.tensor([[math.nan, 1.0], [math.inf, 1.0], [3.0, 4.0]]), 1.0)
    assert used.tolist() == [[0, 0], [0, 0], pytest.approx([0.6, 0.8])]
    assert factor.flatten().tolist() == [0, 0, pytest.approx(0.2)]


def epsilon_by_the_library(event: dp_accounting.DpEvent, rounds: int, delta: float, replace: bool = False) -> float:
    relation = dp_accounting.NeighboringRelation
    accountant = dp_accounting.rdp.RdpAccountant(
        list(ORDERS), relation.REPLACE_ONE if replace else relation.ADD_OR_REMOVE_ONE
    )
    accountant.compose(dp_accounting.SelfComposedDpEvent(event, rounds))
    return float(accountant.get_epsilon(delta))


def test_epsilon_is_that_of_dp_accounting() -> None:
    gaussian, half = dp_accounting.GaussianDpEvent(1.3), dp_accounting.GaussianDpEvent(0.65)
    cases = [
        (EVERYONE, "central", gaussian, False),
        (POISSON, "central", dp_accounting.PoissonSampledDpEvent(0.3, gaussian), False),
        (FIXED, "central", dp_accounting.SampledWithoutReplacementDpEvent(20, 6, half), True),
        (POISSON, "local", gaussian, False),  # the server sees who took part: nothing is gained by draws
        (POISSON, "distributed", gaussian, False),
    ]
    for draws, where, event, replace in cases:
        budget = Budget(make_privacy(f"{where}:noise=1.3"), draws, 1e-5)
        assert budget.epsilon(30) == pytest.approx(epsilon_by_the_library(event, 30, 1e-5, replace)), (draws, where)


@pytest.mark.parametrize("epsilon", [2.0, 8.0])
@pytest.mark.parametrize("draws", [EVERYONE, POISSON])
def test_planned_noise_is_enough_and_hardly_more(draws: Draws, epsilon: float) -> None:
    noise = planned(make_privacy("central"), draws, 50, epsilon)
    assert Budget(make_privacy(f"central:noise={noise}"), draws).epsilon(50) <= epsilon
    assert Budget(make_privacy(f"central:noise={noise * 0.995}"), draws).epsilon(50) > epsilon


def test_a_budget_is_never_exceeded() -> None:
    budget = Budget(make_privacy("central:noise=2"), POISSON, epsilon=3.0)
    rounds = next(n for n in range(1, 1000) if not budget.allows(n))
    assert 1 < rounds < 1000
    assert budget.epsilon(rounds - 1) <= 3.0 < budget.epsilon(rounds)


def test_without_noise_epsilon_is_infinite() -> None:
    assert Budget(make_privacy("central:noise=0"), POISSON).epsilon(1) == math.inf


def test_noise_has_the_deviation_asked_for() -> None:
    drawn = noise_like(torch.zeros(100_000), 2.5, np.random.default_rng(0))
    assert float(drawn.std()) == pytest.approx(2.5, rel=0.02)
    assert make_privacy("local:noise=2").site_deviation(9) == 2
    assert make_privacy("distributed:noise=3").site_deviation(9) == 1
    assert make_privacy("central:noise=3").site_deviation(9) == 0
    assert make_privacy("central:noise=3").server_deviation() == 3


def test_bad_options_are_refused() -> None:
    with pytest.raises(ConfigError, match="clip must be above 0"):
        make_privacy("central:clip=0")
    with pytest.raises(ConfigError, match="epsilon must be above 0"):
        planned(make_privacy("central"), POISSON, 10, -1.0)
    with pytest.raises(ConfigError, match="delta must be above 0 and at most 1"):
        Budget(make_privacy("central:noise=1"), POISSON, delta=0.0)


def test_what_chance_saves_and_for_whom() -> None:
    """Joining at random is cheap for central noise only, and cohorts of a fixed size cost more for the same number."""

    def epsilon(mechanism: str, draws: Draws) -> float:
        return Budget(make_privacy(f"{mechanism}:noise=2"), draws).epsilon(20)

    everyone, joins, fixed = Draws(100, 100, False, False), Draws(100, 10, True, False), Draws(100, 10, True, True)
    assert epsilon("central", joins) < 0.3 * epsilon("central", everyone)
    assert epsilon("central", fixed) > 1.5 * epsilon("central", joins)
    for mechanism in ("local", "distributed"):
        assert epsilon(mechanism, joins) == epsilon(mechanism, fixed) == epsilon(mechanism, everyone)
