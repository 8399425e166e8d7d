"""FedDC: clients learn their drift h_i instead of fighting it.

Gao et al., "FedDC: Federated Learning with Non-IID Data via Local Drift Decoupling and Correction" (CVPR 2022).

    objective    L_i(θ) + α_i/2 ‖θ + h_i − w‖² + ⟨θ, g/ω_i − g_i⟩        (le + lp + lg)
    client       h_i ← h_i + Δ_i;   g_i⁺ = g_i − g/ω_i − Δ_i/(K_i η)
    server       w ← w + mean Δ_i (cohort) + mean h_i (all N)
                 g ← g + Σ ω_i (g_i⁺ − g_i)/N = (1 − p) g − p · mean ω_i Δ_i/(K_i η)

    symbols      h: drift, g: variate (client's, server's); Δ_i = θ_i − w: local.delta; ω_i: weight; α_i = α/ω_i
                 K_i: the client's own steps; p = |S|/N: cohort.participation

``steps="nominal"`` divides by the one K of an average client, as the authors' code does. A client with r = K_i/K then
has g_i⁺ = (1 − r)(g_i − g/ω_i) + r ∇L_i, which grows without bound where r > 2: use it only to repeat their numbers.

``form="paper"`` is the text taken literally: g_i = −Δ_i/(K η) of the last round, w the weighted mean of θ_i + h_i over
the cohort, α undivided. It needs full participation: at 15 % it collapses, as the drift of absent clients is left out.
Only the clients know θ_i + h_i, so they send it beside Δ_i: two vectors.

``leak`` λ: h_i ← (1 − λ) h_i + Δ_i, and the server's mean of them alike. The drift is a sum, so noise that the server
adds for privacy grows in it as √rounds; with a leak it stops at √(1/2pλ) rounds' worth. Exact at full participation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch

from ..errors import check, check_number
from ..types import Cohort, Column, Correction, Local, LocalResult, Means, Rows, Vector, Weights
from .base import DeltaUpload, PairSent
from .server import SGD, OptState, ServerOptimizer

Server = NamedTuple("Server", [("model", Vector), ("drift", Vector), ("variate", Vector), ("opt", OptState)])
Client = NamedTuple("Client", [("drift", Rows), ("variate", Rows)])
PaperUpload = NamedTuple("PaperUpload", [("delta", Rows), ("moved", Rows)])


@dataclass(frozen=True)
class FedDC:
    """Local SGD with a learned drift, a penalty of strength alpha on it, and corrected gradients."""

    alpha: float = 0.1
    form: Literal["code", "paper"] = "code"
    steps: Literal["own", "nominal"] = "own"
    penalty: bool = True
    correction: bool = True
    leak: float = 0.0
    server: ServerOptimizer = SGD()
    fixed_steps: ClassVar[bool] = False
    steadier: ClassVar[str] = "a larger alpha"

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, 0)
        check_number("leak", self.leak, 0, 1)
        check(self.form in ("code", "paper"), f"form must be 'code' or 'paper', not {self.form!r}")
        check(self.steps in ("own", "nominal"), f"steps must be 'own' or 'nominal', not {self.steps!r}")

    @property
    def over_all(self) -> dict[str, bool]:  # Σ h_i / N and Σ ω_i g_i / N
        return {"drift": False, "variate": True} if self.form == "code" else {}

    @property
    def sends_update(self) -> bool:
        """Whether what travels up is Δ_i and nothing else, so that it can be compressed."""
        return self.form == "code"

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

    def upload(
        self, sent: PairSent, client: Client, local: LocalResult, weight: Column
    ) -> tuple[DeltaUpload | PaperUpload, Client]:
        drift = (1 - self.leak) * client.drift + local.delta
        gradient = -local.delta[:, : client.variate.shape[1]] / self._travelled(local)
        if self.form == "paper":
            return PaperUpload(local.delta, local.delta + drift), Client(drift, gradient)
        return DeltaUpload(local.delta), Client(drift, client.variate - sent.variate / weight + gradient)

    def weigh(self, local: Local, weight: Column) -> Weights:
        if self.form == "paper":
            return {"samples": weight, "gradient": 1 / self._travelled(local)}
        return {"plain": torch.ones_like(weight)} | (
            {"gradient": weight / self._travelled(local)} if self.correction else {}
        )

    def aggregate(self, server: Server, means: Means, cohort: Cohort) -> Server:
        variate = server.variate
        if self.form == "paper":
            mean = means["samples"]
            model, opt = self.server.step(server.model, mean.upload.moved / mean.weight, server.opt, mean, cohort)
            return Server(model, server.drift, -means["gradient"].delta[: len(variate)], opt)
        mean = means["plain"]
        drift = server.drift + cohort.participation * (mean.delta - self.leak * server.drift)
        if self.correction:
            received = variate if cohort.sent is None else cohort.sent.variate  # what clients subtracted
            variate = variate - cohort.participation * (received + means["gradient"].delta)
        model, opt = self.server.step(server.model, mean.delta + drift, server.opt, mean, cohort)
        return Server(model, drift, variate, opt)

    def _travelled(self, local: Local) -> Column:
        """K_i η: what a gradient was multiplied by in local training, all steps together."""
        steps = local.reach if self.steps == "own" else torch.full_like(local.steps, local.nominal)
        return steps * local.lr
