"""FedACG: clients begin where the server's momentum will carry it, and are held near that point.

Kim et al., "Communication-Efficient Federated Learning with Accelerated Client Gradient" (CVPR 2024).

    start       w̃ = w + λ m, which is what is sent
    gradient    ∇L_i(θ) + μ (θ − w̃)
    server      m ← λ m + mean Δ_i (cohort), Δ_i = θ_i − w̃;   w ← w + m

    symbols     λ: momentum; w: server.model, which is also what is evaluated

The authors' penalty β ‖θ − w̃‖² has no ½: their β = 1e-3 is ``mu=2e-3`` here. Their code also lowers the learning rate
with every local epoch, which the paper does not mention and which is left out. λ = μ = 0 is FedAvg with a plain mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from ..errors import check, check_number
from ..types import Cohort, Column, Correction, Means, Vector
from .base import ModelSent, NoState
from .fedavg import Averaging


class Server(NamedTuple):
    model: Vector
    momentum: Vector


@dataclass(frozen=True)
class FedACG(Averaging):
    """Local SGD from a model that looks ahead along the server's momentum, with a pull of strength mu towards it."""

    momentum: float = 0.85
    mu: float = 2e-3
    weighted = False

    def __post_init__(self) -> None:
        check_number("momentum", self.momentum, 0, 1)
        check(self.momentum < 1, f"momentum must be below 1, not {self.momentum}")
        check_number("mu", self.mu, 0)

    def init_server(self, model: Vector) -> Server:
        return Server(model, torch.zeros_like(model))

    def broadcast(self, server: Server) -> ModelSent:
        return ModelSent(server.model + self.momentum * server.momentum)

    def correct(self, sent: ModelSent, client: NoState, weight: Column) -> Correction:
        return Correction(linear=-self.mu * sent.model, prox=self.mu)

    def aggregate(self, server: Server, means: Means, cohort: Cohort) -> Server:
        momentum = self.momentum * server.momentum + means["mean"].average
        return Server(server.model + momentum, momentum)
