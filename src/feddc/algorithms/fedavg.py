"""FedAvg, and FedAdam, FedYogi and FedAdagrad, which are FedAvg with a server optimiser.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data" (AISTATS 2017);
Reddi et al., "Adaptive Federated Optimization" (ICLR 2021).

Clients minimise their own loss; the server averages them by their number of samples:

    w ← w + Σ n_i Δ_i / Σ n_i        over the cohort

| symbol | here |
|---|---|
| Δ_i = θ_i − w | local.delta |
| ω_i = n_i / mean(n) | weight |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..types import Cohort, Column, Correction, Local, LocalResult, Means, Vector, Weights
from .base import DeltaUpload, ModelSent, ModelServer, NoState
from .server import SGD, Adagrad, Adam, ServerOptimizer, Yogi


@dataclass(frozen=True)
class FedAvg:
    """Plain local SGD, averaged by number of samples."""

    server: ServerOptimizer = SGD()
    fixed_steps: ClassVar[bool] = False

    def init_server(self, model: Vector) -> ModelServer:
        return ModelServer(model, self.server.init(model))

    def init_client(self, model: Vector) -> NoState:
        return NoState()

    def broadcast(self, server: ModelServer) -> ModelSent:
        return ModelSent(server.model)

    def correct(self, sent: ModelSent, client: NoState, weight: Column) -> Correction:
        return Correction()

    def upload(
        self, sent: ModelSent, client: NoState, local: LocalResult, weight: Column
    ) -> tuple[DeltaUpload, NoState]:
        return DeltaUpload(local.delta), client

    def weigh(self, local: Local, weight: Column) -> Weights:
        return {"samples": weight}

    def aggregate(self, server: ModelServer, means: Means, cohort: Cohort) -> ModelServer:
        mean = means["samples"]
        return ModelServer(*self.server.step(server.model, mean.average, server.opt, mean, cohort))


def FedAdam(lr: float = 0.01, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> FedAvg:
    """FedAvg whose server takes Adam steps."""
    return FedAvg(server=Adam(lr, beta1, beta2, tau))


def FedYogi(lr: float = 0.01, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> FedAvg:
    """FedAvg whose server takes Yogi steps."""
    return FedAvg(server=Yogi(lr, beta1, beta2, tau))


def FedAdagrad(lr: float = 0.1, beta1: float = 0.0, tau: float = 1e-3) -> FedAvg:
    """FedAvg whose server takes Adagrad steps."""
    return FedAvg(server=Adagrad(lr, beta1, tau))
