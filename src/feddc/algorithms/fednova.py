"""FedNova: updates normalised by how far each client went, so that clients with more steps do not count for more.

Wang et al., "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization" (NeurIPS 2020).

    gradient    ∇L_i(θ) + μ (θ − w)
    server      w ← w + (Σ q_i a_i) · Σ q_i Δ_i/a_i        over the cohort, q_i = n_i / Σ n

    symbols     a_i: how many times a gradient makes up Δ_i: K_i, with momentum local.reach,
                     with μ > 0 Σ_{k<K_i} (1 − η_t μ)^k, and then Σ q_i K_i stands in front

With equal numbers of steps it is FedAvg. Authors' default: μ = 0; their server momentum is ``server=SGD(momentum=…)``.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import check, check_number
from ..types import Cohort, Column, Correction, Local, Means, Weights
from .base import ModelSent, ModelServer, NoState
from .fedavg import Averaging
from .server import SGD, ServerOptimizer


@dataclass(frozen=True)
class FedNova(Averaging):
    """Local SGD whose updates are normalised by each client's number of steps."""

    mu: float = 0.0
    server: ServerOptimizer = SGD()

    def __post_init__(self) -> None:
        check_number("mu", self.mu, 0)

    def correct(self, sent: ModelSent, client: NoState, weight: Column) -> Correction:
        return Correction(linear=-self.mu * sent.model, prox=self.mu) if self.mu else Correction()

    def weigh(self, local: Local, weight: Column) -> Weights:
        if not self.mu:
            return {"samples": weight, "steps": weight * local.reach, "normalised": weight / local.reach}
        check(not local.momentum, "FedNova with mu needs local momentum 0: its normalisation knows no rule for both")
        pull = local.rate * self.mu
        length = (1 - (1 - pull) ** local.steps) / pull
        return {"samples": weight, "steps": weight * local.steps, "normalised": weight / length}

    def aggregate(self, server: ModelServer, means: Means, cohort: Cohort) -> ModelServer:
        mean, steps = means["normalised"], means["steps"].weight / means["samples"].weight
        update = steps * mean.delta / means["samples"].weight
        return ModelServer(*self.server.step(server.model, update, server.opt, means["samples"], cohort))
