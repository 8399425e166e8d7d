"""FedSMOO: FedDyn with sharpness-aware steps whose directions agree between clients, by a dual of their own.

Sun et al., "Dynamic Regularized Sharpness Aware Minimization in Federated Learning" (ICML 2023),
in the form of the authors' code.

    every step  a = ∇L_i(θ) − μ_i − s;   e = ρ a/‖a‖;   μ_i ← μ_i + e − s
    gradient    ∇L_i(θ + e) − α (w − h_i), clipped, then + α θ
    client      h_i ← h_i + Δ_i, and μ_i
    server      w ← w + mean Δ_i (cohort) + mean h_i (all N clients);   s = ρ u/‖u‖, u = mean μ_i (cohort)

| symbol | here |
|---|---|
| h_i, mean h_i | client.drift, server.drift |
| μ_i, s | client.dual, server.consensus |

μ_i changes inside the steps, so the server cannot know it: two vectors travel up, and two down. ρ = 0 is FedDyn with
``weighted=False``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch

from ..errors import check_number
from ..types import Cohort, Column, Correction, Local, LocalResult, Means, Rows, Vector, Weights
from .server import SGD, OptState, ServerOptimizer


class Server(NamedTuple):
    model: Vector
    drift: Vector
    consensus: Vector
    opt: OptState


class Sent(NamedTuple):
    model: Vector
    consensus: Vector


class Client(NamedTuple):
    drift: Rows
    dual: Rows


class Upload(NamedTuple):
    delta: Rows
    dual: Rows


@dataclass(frozen=True)
class FedSMOO:
    """FedDyn, unweighted, with sharpness-aware steps of radius rho whose directions clients agree on."""

    rho: float = 0.1
    alpha: float = 0.1
    server: ServerOptimizer = SGD()
    fixed_steps: ClassVar[bool] = False
    sends_update: ClassVar[bool] = False
    over_all: ClassVar[dict[str, bool]] = {"drift": False}

    def __post_init__(self) -> None:
        check_number("rho", self.rho, 0)
        check_number("alpha", self.alpha, 0)

    @property
    def sam(self) -> float:
        """The radius of the local steps."""
        return self.rho

    def init_server(self, model: Vector) -> Server:
        return Server(model, torch.zeros_like(model), torch.zeros_like(model), self.server.init(model))

    def init_client(self, model: Vector) -> Client:
        return Client(torch.zeros_like(model), torch.zeros_like(model))

    def broadcast(self, server: Server) -> Sent:
        return Sent(server.model, server.consensus)

    def correct(self, sent: Sent, client: Client, weight: Column) -> Correction:
        pull = self.alpha * (client.drift - sent.model)
        return Correction(
            linear=pull, decay=self.alpha, dual=client.dual, consensus=sent.consensus.expand_as(client.dual)
        )

    def upload(self, sent: Sent, client: Client, local: LocalResult, weight: Column) -> tuple[Upload, Client]:
        dual = client.dual if local.dual is None else local.dual
        return Upload(local.delta, dual), Client(client.drift + local.delta, dual)

    def weigh(self, local: Local, weight: Column) -> Weights:
        return {"plain": torch.ones_like(weight)}

    def aggregate(self, server: Server, means: Means, cohort: Cohort) -> Server:
        mean = means["plain"]
        drift = server.drift + cohort.participation * mean.delta
        model, opt = self.server.step(server.model, mean.delta + drift, server.opt, mean, cohort)
        length = torch.linalg.vector_norm(mean.upload.dual) + 1e-7
        return Server(model, drift, self.rho * mean.upload.dual / length, opt)
