"""AdaBest: a client's bias is forgotten with its absence, and the server looks ahead along its last step.

Varno et al., "AdaBest: Minimizing Client Drift in Federated Learning via Adaptive Bias Estimation" (ECCV 2022).

    gradient    ∇L_i(θ) − μ h_i
    client      h_i ← h_i/(t − t_i) − Δ_i;   t_i ← t
    server      θ̄ ← w + mean Δ_i (cohort);   w ← θ̄ + β (θ̄ − θ̄ of the last round)

    symbols     h_i: bias; t: local.round, t_i: the round in which the client last took part; θ̄: server.mean

θ̄, the mean of the cohort's models, is what is evaluated; w is where clients begin. The paper's form: the authors' code
multiplies μ by epochs · batch size / n_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from ..errors import check_number
from ..types import Cohort, Column, Correction, LocalResult, Means, Rows, Vector
from .base import DeltaUpload, ModelSent
from .fedavg import Averaging
from .server import SGD, OptState, ServerOptimizer


class Server(NamedTuple):
    model: Vector
    mean: Vector
    opt: OptState


class Client(NamedTuple):
    bias: Rows
    last: Column


@dataclass(frozen=True)
class AdaBest(Averaging):
    """Local SGD corrected by mu times an estimate of the client's bias; the server extrapolates by beta."""

    mu: float = 0.02
    beta: float = 0.85
    server: ServerOptimizer = SGD()
    weighted = False

    def __post_init__(self) -> None:
        check_number("mu", self.mu, 0)
        check_number("beta", self.beta, 0, 1)

    def init_server(self, model: Vector) -> Server:
        return Server(model, model, self.server.init(model))

    def init_client(self, model: Vector) -> Client:
        return Client(torch.zeros_like(model), model.new_zeros(1))

    def correct(self, sent: ModelSent, client: Client, weight: Column) -> Correction:
        return Correction(linear=-self.mu * client.bias)

    def upload(self, sent: ModelSent, client: Client, local: LocalResult, weight: Column) -> tuple[DeltaUpload, Client]:
        bias = client.bias / (local.round - client.last).clamp(min=1) - local.delta
        return DeltaUpload(local.delta), Client(bias, torch.full_like(client.last, local.round))

    def aggregate(self, server: Server, means: Means, cohort: Cohort) -> Server:
        mean = means["mean"]
        reached = server.model + mean.average
        ahead = reached + self.beta * (reached - server.mean)
        model, opt = self.server.step(server.model, ahead - server.model, server.opt, mean, cohort)
        return Server(model, reached, opt)

    def evaluated(self, server: Server) -> Vector:
        return server.mean
