"""FedAvg: clients train by themselves, and the server averages them.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data" (AISTATS 2017).

Clients minimise their own loss; the server averages them by their number of samples:

    w ← w + Σ n_i Δ_i / Σ n_i        over the cohort

or, with ``weighted=False``, plainly: w ← w + mean Δ_i. ``sam`` is the radius of the sharpness-aware local steps that it
asks for: FedSAM.

| symbol | here |
|---|---|
| Δ_i = θ_i − w | local.delta |
| ω_i = n_i / mean(n) | weight |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from ..errors import check_number
from ..types import Cohort, Column, Correction, Local, LocalResult, Means, Vector, Weights
from .base import DeltaUpload, ModelSent, ModelServer, NoState
from .server import SGD, ServerOptimizer


@dataclass(frozen=True)
class FedAvg:
    """Plain local SGD, averaged by number of samples."""

    server: ServerOptimizer = SGD()
    weighted: bool = True
    sam: float = 0.0
    fixed_steps: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("sam", self.sam, 0)

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
        return {"samples": weight if self.weighted else torch.ones_like(weight)}

    def aggregate(self, server: ModelServer, means: Means, cohort: Cohort) -> ModelServer:
        mean = means["samples"]
        return ModelServer(*self.server.step(server.model, mean.average, server.opt, mean, cohort))
