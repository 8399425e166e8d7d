"""FedDC: clients learn their drift h_i instead of fighting it.

Gao et al., "FedDC: Federated Learning with Non-IID Data via Local Drift Decoupling and Correction" (CVPR 2022).

    objective    L_i(θ) + α_i/2 ‖θ + h_i − w‖² + ⟨θ, g/ω_i − g_i⟩        (le + lp + lg)
    client       h_i ← h_i + Δ_i;   g_i⁺ = g_i − g/ω_i − Δ_i/(K η)
    server       w ← w + mean Δ_i (cohort) + mean h_i (all N);   g ← g + Σ ω_i (g_i⁺ − g_i)/N

    symbols      h: drift, g: variate (client's, server's); Δ_i = θ_i − w: local.delta; ω_i: weight; α_i = α/ω_i

``form="paper"`` is the text taken literally: g_i = −Δ_i/(K η) of the last round, w the weighted mean of θ_i + h_i over
the cohort, α undivided. It needs full participation: at 15 % it collapses, as the drift of absent clients is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch

from ..errors import check, check_number
from ..types import Cohort, Column, Correction, LocalResult, Rows, Vector
from .base import PairSent, PairUpload
from .server import SGD, OptState, ServerOptimizer

Server = NamedTuple("Server", [("model", Vector), ("drift", Vector), ("variate", Vector), ("opt", OptState)])
Client = NamedTuple("Client", [("drift", Rows), ("variate", Rows)])


@dataclass(frozen=True)
class FedDC:
    """Local SGD with a learned drift, a penalty of strength alpha on it, and corrected gradients."""

    alpha: float = 0.1
    form: Literal["code", "paper"] = "code"
    penalty: bool = True
    correction: bool = True
    server: ServerOptimizer = SGD()
    fixed_steps: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, 0)
        check(self.form in ("code", "paper"), f"form must be 'code' or 'paper', not {self.form!r}")

    def init_server(self, model: Vector) -> Server:
        return Server(model, *self.init_client(model), self.server.init(model))

    def init_client(self, model: Vector) -> Client:  # without lg there is no variate to keep or to send
        return Client(torch.zeros_like(model), torch.zeros_like(model if self.correction else model[:0]))

    def broadcast(self, server: Server) -> PairSent:
        return PairSent(server.model, server.variate)

    def correct(self, sent: PairSent, client: Client, weight: Column) -> Correction:
        share = weight if self.form == "code" else torch.ones_like(weight)
        alpha = self.alpha / share * self.penalty
        linear = alpha * (client.drift - sent.model)
        if self.correction:
            linear += sent.variate / share - client.variate
        return Correction(linear, prox=alpha)

    def upload(self, sent: PairSent, client: Client, local: LocalResult, weight: Column) -> tuple[PairUpload, Client]:
        drift = client.drift + local.delta
        gradient = -local.delta[:, : client.variate.shape[1]] / (local.steps * local.lr)
        if self.form == "paper":
            return PairUpload(weight * (local.delta + drift), gradient), Client(drift, gradient)
        variate = client.variate - sent.variate / weight + gradient
        return PairUpload(local.delta, weight * (variate - client.variate)), Client(drift, variate)

    def aggregate(self, server: Server, mean: PairUpload, cohort: Cohort) -> Server:
        if self.form == "paper":
            model, opt = self.server.step(server.model, mean.delta / cohort.weight, server.opt)
            return Server(model, server.drift, mean.variate, opt)
        drift = server.drift + cohort.participation * mean.delta
        variate = server.variate + cohort.participation * mean.variate
        model, opt = self.server.step(server.model, mean.delta + drift, server.opt)
        return Server(model, drift, variate, opt)
