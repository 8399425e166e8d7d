"""FedLESAM: sharpness-aware steps whose direction is the way the global model took since the client last saw it.

Fan et al., "Locally Estimated Global Perturbations are Better than Local Perturbations for Federated Sharpness-aware
Minimization" (ICML 2024).

    gradient    ∇L_i(θ + e_i) + what ``base`` adds,   e_i = ρ (w_i − w)/‖w_i − w‖
    client      w_i ← w, the model that it received; and what ``base`` keeps
    server      that of ``base``: FedAvg with a plain mean, SCAFFOLD (FedLESAM-S) or FedDyn (FedLESAM-D)

e_i is constant in a round, so a step costs one gradient, not two as in FedSAM. The authors' published optimiser shifts
every layer by one number instead; this is the paper's perturbation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch

from ..errors import check, check_number
from ..types import Cohort, Column, Correction, Local, LocalResult, Means, Rows, Vector, Weights
from .base import Algorithm
from .fedavg import FedAvg
from .feddyn import FedDyn
from .scaffold import Scaffold
from .server import SGD, ServerOptimizer


class Client(NamedTuple):
    received: Rows


class DriftingClient(NamedTuple):
    received: Rows
    drift: Rows


class VariateClient(NamedTuple):
    received: Rows
    variate: Rows


STATES: dict[str, Any] = {"fedavg": Client, "scaffold": VariateClient, "feddyn": DriftingClient}


@dataclass(frozen=True)
class FedLESAM:
    """Gradients at distance rho along the global model's last change; otherwise FedAvg, SCAFFOLD or FedDyn."""

    rho: float = 0.1
    base: Literal["fedavg", "scaffold", "feddyn"] = "fedavg"
    alpha: float = 0.1
    steps: Literal["own", "nominal"] = "own"
    server: ServerOptimizer = SGD()
    fixed_steps: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("rho", self.rho, 0)
        check_number("alpha", self.alpha, 0)
        check(self.base in STATES, f"base must be one of {', '.join(STATES)}, not {self.base!r}")
        _ = self.inner  # checks steps

    @property
    def inner(self) -> Algorithm:
        """The method that the perturbation is added to."""
        if self.base == "scaffold":
            return Scaffold(steps=self.steps, lr="current", server=self.server)
        if self.base == "feddyn":
            return FedDyn(self.alpha, weighted=False, server=self.server)
        return FedAvg(weighted=False, server=self.server)

    def init_server(self, model: Vector) -> Any:
        return self.inner.init_server(model)

    def init_client(self, model: Vector) -> Any:
        return STATES[self.base](model.clone(), *self.inner.init_client(model))

    def broadcast(self, server: Any) -> Any:
        return self.inner.broadcast(server)

    def correct(self, sent: Any, client: Any, weight: Column) -> Correction:
        way = client.received - sent.model
        ahead = self.rho * way / (torch.linalg.vector_norm(way, dim=1, keepdim=True) + 1e-7)
        return self.inner.correct(sent, self._own(client), weight)._replace(ahead=ahead)

    def upload(self, sent: Any, client: Any, local: LocalResult, weight: Column) -> tuple[Any, Any]:
        upload, own = self.inner.upload(sent, self._own(client), local, weight)
        return upload, STATES[self.base](sent.model.expand_as(client.received), *own)

    def weigh(self, local: Local, weight: Column) -> Weights:
        return self.inner.weigh(local, weight)

    def aggregate(self, server: Any, means: Means, cohort: Cohort) -> Any:
        return self.inner.aggregate(server, means, cohort)

    def _own(self, client: Any) -> Any:
        """The state of the inner method."""
        return type(self.inner.init_client(client.received[:0, 0]))(*client[1:])
