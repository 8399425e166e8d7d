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
from typing import Any, ClassVar

import torch

from ..errors import check_number
from ..types import Cohort, Column, Correction, Local, LocalResult, Means, Vector, Weights
from .base import DeltaUpload, ModelSent, ModelServer, NoState
from .server import SGD, ServerOptimizer


class Averaging:
    """What FedAvg does in each of the seven functions: a method that differs in some of them inherits the others.

    Clients keep nothing, train without a correction and send their update; the server keeps the model, and moves it by
    the mean of the updates: weighted by samples, or plain where ``weighted`` is False.
    """

    server: ServerOptimizer
    weighted: bool = True
    fixed_steps: ClassVar[bool] = False

    def init_server(self, model: Vector) -> Any:
        return ModelServer(model, self.server.init(model))

    def init_client(self, model: Vector) -> Any:
        return NoState()

    def broadcast(self, server: Any) -> Any:
        return ModelSent(server.model)

    def correct(self, sent: Any, client: Any, weight: Column) -> Correction:
        return Correction()

    def upload(self, sent: Any, client: Any, local: LocalResult, weight: Column) -> tuple[DeltaUpload, Any]:
        return DeltaUpload(local.delta), client

    def weigh(self, local: Local, weight: Column) -> Weights:
        return {"mean": weight if self.weighted else torch.ones_like(weight)}

    def aggregate(self, server: Any, means: Means, cohort: Cohort) -> Any:
        mean = means["mean"]
        return ModelServer(*self.server.step(server.model, mean.average, server.opt, mean, cohort))


@dataclass(frozen=True)
class FedAvg(Averaging):
    """Plain local SGD, averaged by number of samples."""

    server: ServerOptimizer = SGD()
    weighted: bool = True
    sam: float = 0.0

    def __post_init__(self) -> None:
        check_number("sam", self.sam, 0)
