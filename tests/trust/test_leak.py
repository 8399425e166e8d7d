"""Noise in the drift: a random walk, and the leak that bounds it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

import feddc
from tests.conftest import FAST, make_federation

STILL = feddc.LocalTraining(epochs=1, lr=1e-12, weight_decay=0)


def drift_of_noise(algorithm: Any, rounds: int) -> float:
    """The deviation of the server's drift after rounds in which clients stand still, in those of one round's noise."""
    torch.manual_seed(0)
    simulation = feddc.Simulation(
        algorithm,
        nn.Linear(300, 20),
        make_federation([5] * 4, features=300, classes=20),
        rounds=rounds,
        training=STILL,
        privacy="central:clip=1e-6:noise=1",
        evaluate_every=rounds,
    )
    list(simulation.run())
    return float(simulation.server.drift.std()) / (1e-6 / 4)


@pytest.mark.parametrize("method", [feddc.FedDC, feddc.FedDyn])
def test_noise_walks_in_the_drift_and_a_leak_stops_it(method: Any) -> None:
    for rounds in (4, 64):
        assert drift_of_noise(method(), rounds) == pytest.approx(math.sqrt(rounds), rel=0.05)
    bound = math.sqrt(1 / (1 - 0.9**2))  # a geometric series of variances
    assert drift_of_noise(method(leak=0.1), 64) == pytest.approx(bound, rel=0.05)


@pytest.mark.parametrize("method", [feddc.FedDC, feddc.FedDyn])
def test_with_a_leak_clients_and_server_agree_at_full_participation(method: Any) -> None:
    torch.manual_seed(0)
    arguments: dict[str, Any] = {"rounds": 5, "training": FAST}
    simulation = feddc.Simulation(method(leak=0.2), nn.Linear(6, 3), make_federation([9, 14, 6]), **arguments)
    list(simulation.run())
    drift = simulation.store.gather(range(3)).drift
    torch.testing.assert_close(simulation.server.drift, drift.mean(dim=0), rtol=1e-4, atol=1e-6)
    plain = feddc.Simulation(method(), nn.Linear(6, 3), make_federation([9, 14, 6]), **arguments)
    list(plain.run())
    assert torch.linalg.vector_norm(drift) < torch.linalg.vector_norm(plain.store.gather(range(3)).drift)
