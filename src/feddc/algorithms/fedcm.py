"""FedCM: every local step leans on the direction in which the server moved last.

Xu et al., "FedCM: Federated Learning with Client-level Momentum" (2021), in the form of FL-Simulator's code.

    gradient    α ∇L_i(θ) + (1 − α) m
    server      w ← w + mean Δ_i (cohort);   m ← −mean Δ_i/(K η_t)

    symbols     m: variate; K: nominal steps, η_t: the rate of the round that made Δ_i (cohort.nominal, cohort.rate)

α = 1 is FedAvg with a plain mean. With ``sam``, the radius of sharpness-aware steps, it is MoFedSAM (Qu et al.,
"Generalized Federated Learning via Sharpness Aware Minimization", ICML 2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch

from ..errors import check_number
from ..types import Cohort, Column, Correction, Means, Vector
from .base import NoState, PairSent
from .fedavg import Averaging
from .server import SGD, OptState, ServerOptimizer


class Server(NamedTuple):
    model: Vector
    variate: Vector
    opt: OptState


@dataclass(frozen=True)
class FedCM(Averaging):
    """Local SGD on a mixture of its own gradient, with weight alpha, and the server's last direction."""

    alpha: float = 0.1
    sam: float = 0.0
    server: ServerOptimizer = SGD()
    weighted = False
    steadier: ClassVar[str] = "a larger alpha"

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, 0, 1, above=True)
        check_number("sam", self.sam, 0)

    def init_server(self, model: Vector) -> Server:
        return Server(model, torch.zeros_like(model), self.server.init(model))

    def broadcast(self, server: Server) -> PairSent:
        return PairSent(server.model, server.variate)

    def correct(self, sent: PairSent, client: NoState, weight: Column) -> Correction:
        return Correction(linear=(1 - self.alpha) * sent.variate, scale=self.alpha)

    def aggregate(self, server: Server, means: Means, cohort: Cohort) -> Server:
        mean = means["mean"]
        model, opt = self.server.step(server.model, mean.average, server.opt, mean, cohort)
        return Server(model, -mean.average / (cohort.nominal * cohort.rate), opt)
