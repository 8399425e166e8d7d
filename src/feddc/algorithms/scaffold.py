"""SCAFFOLD: local gradients corrected by control variates.

Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning" (ICML 2020), option II.

    gradient    ∇L_i(θ) + c − c_i
    client      c_i⁺ = c_i − c − Δ_i/(K_i η)
    server      w ← w + mean Δ_i (cohort);   c ← c + Σ (c_i⁺ − c_i)/N = (1 − p) c − p · mean Δ_i/(K_i η)

    symbols     c: variate (client's, server's); Δ_i = θ_i − w: local.delta; p = |S|/N: cohort.participation

``steps="nominal"`` divides by the one K of an average client, as FedGamma's authors do: unstable where K_i > 2 K.
``lr="current"`` divides by the rate of this round instead of η, that of the first: with a decaying rate c_i is then the
client's mean gradient, not a shrinking multiple of it. FedGamma and FedLESAM do so.

``form="feddc"`` is what the authors of FedDC compared with: every client takes exactly K steps, the step adds
c/ω_i − c_i, and c moves by Σ ω_i (c_i⁺ − c_i)/N.
``form="weighted"`` has FedAvg's means, weighted by samples: w ← w + Σ ω_i Δ_i / Σ ω_i, c = mean of ω_i c_i. Its fixed
point is that of FedAvg's objective, the loss of all samples; the original's is the mean of the clients' losses.
FLamby's SCAFFOLD is this form. With clients of equal size all forms are the same.
``sam`` is the radius of the sharpness-aware local steps that it asks for: FedGamma.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch

from ..errors import check, check_number
from ..types import Cohort, Column, Correction, Local, LocalResult, Means, Rows, Vector, Weights
from .base import DeltaUpload, PairSent
from .server import SGD, OptState, ServerOptimizer


class Server(NamedTuple):
    """c is the mean of c_i over all N clients; with any other form than the original that of ω_i c_i."""

    model: Vector
    variate: Vector
    opt: OptState


class Client(NamedTuple):
    variate: Rows


@dataclass(frozen=True)
class Scaffold:
    """Local SGD whose gradients are corrected by control variates."""

    form: Literal["original", "feddc", "weighted"] = "original"
    steps: Literal["own", "nominal"] = "own"
    lr: Literal["first", "current"] = "first"
    sam: float = 0.0
    server: ServerOptimizer = SGD()
    title: ClassVar[str] = "SCAFFOLD"

    def __post_init__(self) -> None:
        known = self.form in ("original", "feddc", "weighted")
        check(known, f"form must be 'original', 'feddc' or 'weighted', not {self.form!r}")
        check(self.steps in ("own", "nominal"), f"steps must be 'own' or 'nominal', not {self.steps!r}")
        check(self.lr in ("first", "current"), f"lr must be 'first' or 'current', not {self.lr!r}")
        check_number("sam", self.sam, 0)

    @property
    def fixed_steps(self) -> bool:
        return self.form == "feddc"

    @property
    def over_all(self) -> dict[str, bool]:
        return {"variate": self.form != "original"}

    def init_server(self, model: Vector) -> Server:
        return Server(model, torch.zeros_like(model), self.server.init(model))

    def init_client(self, model: Vector) -> Client:
        return Client(torch.zeros_like(model))

    def broadcast(self, server: Server) -> PairSent:
        return PairSent(server.model, server.variate)

    def correct(self, sent: PairSent, client: Client, weight: Column) -> Correction:
        return Correction(linear=sent.variate / (weight if self.form == "feddc" else 1) - client.variate)

    def upload(self, sent: PairSent, client: Client, local: LocalResult, weight: Column) -> tuple[DeltaUpload, Client]:
        # c is subtracted undivided although form="feddc" steps with c/ω_i: the authors' code, and what was published.
        variate = client.variate - sent.variate - local.delta / self._travelled(local)
        return DeltaUpload(local.delta), Client(variate)

    def weigh(self, local: Local, weight: Column) -> Weights:
        share = self._share(weight)
        return {"plain": torch.ones_like(weight), "share": share, "gradient": share / self._travelled(local)}

    def aggregate(self, server: Server, means: Means, cohort: Cohort) -> Server:
        received = server.variate if cohort.sent is None else cohort.sent.variate  # what clients subtracted
        change = means["share"].weight * received + means["gradient"].delta
        mean = means["share" if self.form == "weighted" else "plain"]
        model, opt = self.server.step(server.model, mean.average, server.opt, mean, cohort)
        return Server(model, server.variate - cohort.participation * change, opt)

    def _share(self, weight: Column) -> Column:
        return torch.ones_like(weight) if self.form == "original" else weight

    def _travelled(self, local: Local) -> Column:
        """K_i η: what a gradient was multiplied by in local training, all steps together."""
        steps = local.reach if self.steps == "own" else torch.full_like(local.steps, local.nominal)
        return steps * (local.lr if self.lr == "first" else local.rate)
