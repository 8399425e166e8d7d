"""SCAFFOLD: local gradients corrected by control variates.

Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning" (ICML 2020), option II, in the
form that the authors of FedDC compared with: variates are weighted by ω_i, and every client takes exactly K steps.

    gradient    ∇L_i(θ) + c/ω_i − c_i
    client      c_i⁺ = c_i − c − Δ_i / (K η)
    server      w ← w + mean Δ_i (cohort, unweighted);   c ← c + Σ ω_i (c_i⁺ − c_i) / N

| symbol | here |
|---|---|
| c, c_i | server.variate, client.variate |
| Δ_i = θ_i − w | local.delta |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch

from ..types import Cohort, Column, Correction, LocalResult, Rows, Vector
from .base import PairSent, PairUpload
from .server import SGD, OptState, ServerOptimizer


class Server(NamedTuple):
    """c is the mean of ω_i c_i over all N clients."""

    model: Vector
    variate: Vector
    opt: OptState


class Client(NamedTuple):
    variate: Rows


@dataclass(frozen=True)
class Scaffold:
    """Local SGD whose gradients are corrected by control variates."""

    server: ServerOptimizer = SGD()
    fixed_steps: ClassVar[bool] = True
    title: ClassVar[str] = "SCAFFOLD"

    def init_server(self, model: Vector) -> Server:
        return Server(model, torch.zeros_like(model), self.server.init(model))

    def init_client(self, model: Vector) -> Client:
        return Client(torch.zeros_like(model))

    def broadcast(self, server: Server) -> PairSent:
        return PairSent(server.model, server.variate)

    def correct(self, sent: PairSent, client: Client, weight: Column) -> Correction:
        return Correction(linear=sent.variate / weight - client.variate)

    def upload(self, sent: PairSent, client: Client, local: LocalResult, weight: Column) -> tuple[PairUpload, Client]:
        # c is subtracted undivided although the step used c/ω_i: the authors' form, and what was published.
        variate = client.variate - sent.variate - local.delta / (local.steps * local.lr)
        return PairUpload(local.delta, weight * (variate - client.variate)), Client(variate)

    def aggregate(self, server: Server, mean: PairUpload, cohort: Cohort) -> Server:
        variate = server.variate + cohort.participation * mean.variate
        model, opt = self.server.step(server.model, mean.delta, server.opt)
        return Server(model, variate, opt)
