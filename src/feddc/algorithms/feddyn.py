"""FedDyn: dynamic regularisation, so that local optima agree with the global one.

Acar et al., "Federated Learning Based on Dynamic Regularization" (ICLR 2021), in the form of the authors' code.

    gradient    ∇L_i(θ) − α_i (w − h_i), clipped, then + α_i θ            (the quadratic term acts as weight decay)
    client      h_i ← h_i + Δ_i
    server      w ← w + mean Δ_i (cohort) + mean h_i (all N clients)

``weighted=False`` takes α for all clients, as the authors of FedSpeed do. ``sam`` is the radius of the sharpness-aware
local steps that it asks for: FedSpeed.

| symbol | here |
|---|---|
| h_i, mean h_i | client.drift, server.drift |
| α_i = α / ω_i | alpha / weight |
| Δ_i = θ_i − w | local.delta |

``leak`` λ: h_i ← (1 − λ) h_i + Δ_i, and the server's mean of them alike, as in ``feddc.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch

from ..errors import check_number
from ..types import Cohort, Column, Correction, Local, LocalResult, Means, Rows, Vector, Weights
from .base import DeltaUpload, ModelSent
from .server import SGD, OptState, ServerOptimizer


class Server(NamedTuple):
    model: Vector
    drift: Vector
    opt: OptState


class Client(NamedTuple):
    drift: Rows


@dataclass(frozen=True)
class FedDyn:
    """Local SGD with a dynamic regulariser of strength alpha."""

    alpha: float = 0.01
    leak: float = 0.0
    server: ServerOptimizer = SGD()
    weighted: bool = True
    sam: float = 0.0
    fixed_steps: ClassVar[bool] = False
    steadier: ClassVar[str] = "a larger alpha"
    over_all: ClassVar[dict[str, bool]] = {"drift": False}

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, 0)
        check_number("sam", self.sam, 0)
        check_number("leak", self.leak, 0, 1)

    def init_server(self, model: Vector) -> Server:
        return Server(model, torch.zeros_like(model), self.server.init(model))

    def init_client(self, model: Vector) -> Client:
        return Client(torch.zeros_like(model))

    def broadcast(self, server: Server) -> ModelSent:
        return ModelSent(server.model)

    def correct(self, sent: ModelSent, client: Client, weight: Column) -> Correction:
        alpha = self.alpha / (weight if self.weighted else torch.ones_like(weight))
        return Correction(linear=alpha * (client.drift - sent.model), decay=alpha)

    def upload(self, sent: ModelSent, client: Client, local: LocalResult, weight: Column) -> tuple[DeltaUpload, Client]:
        return DeltaUpload(local.delta), Client((1 - self.leak) * client.drift + local.delta)

    def weigh(self, local: Local, weight: Column) -> Weights:
        return {"plain": torch.ones_like(weight)}

    def aggregate(self, server: Server, means: Means, cohort: Cohort) -> Server:
        mean = means["plain"]
        drift = server.drift + cohort.participation * (mean.delta - self.leak * server.drift)
        model, opt = self.server.step(server.model, mean.delta + drift, server.opt, mean, cohort)
        return Server(model, drift, opt)
