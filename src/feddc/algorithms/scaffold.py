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
c/ω_i − c_i, and c moves by Σ ω_i (c_i⁺ − c_i)/N. With clients of equal size the two forms are the same.
``weighted=True`` counts a client by its samples: w moves by Σ n_i Δ_i / Σ n_i, and c is the mean of ω_i c_i.
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
    """c is the mean of c_i over all N clients; with ``form="feddc"`` or ``weighted`` that of ω_i c_i."""

    model: Vector
    variate: Vector
    opt: OptState


class Client(NamedTuple):
    variate: Rows


@dataclass(frozen=True)
class Scaffold:
    """Local SGD whose gradients are corrected by control variates."""

    form: Literal["original", "feddc"] = "original"
    steps: Literal["own", "nominal"] = "own"
    lr: Literal["first", "current"] = "first"
    weighted: bool = False
    sam: float = 0.0
    server: ServerOptimizer = SGD()
    title: ClassVar[str] = "SCAFFOLD"

    def __post_init__(self) -> None:
        check(self.form in ("original", "feddc"), f"form must be 'original' or 'feddc', not {self.form!r}")
        check(self.steps in ("own", "nominal"), f"steps must be 'own' or 'nominal', not {self.steps!r}")
        check(self.lr in ("first", "current"), f"lr must be 'first' or 'current', not {self.lr!r}")
        check_number("sam", self.sam, 0)
        check(not (self.weighted and self.form == "feddc"), "weighted=True goes with form='original' only")

    @property
    def fixed_steps(self) -> bool:
        return self.form == "feddc"

    @property
    def over_all(self) -> dict[str, bool]:
        return {"variate": self.form == "feddc" or self.weighted}

    def init_server(self, model: Vector) -> Server:
        return Server(model, torch.zeros_like(model), self.server.init(model))

    def init_client(self, model: Vector) -> Client:
        return Client(torch.zeros_like(model))

    def broadcast(self, server: Server) -> PairSent:
        return PairSent(server.model, server.variate)

    def correct(self, sent: PairSent, client: Client, weight: Column) -> Correction:
        share = weight if self.form == "feddc" else torch.ones_like(weight)
        return Correction(linear=sent.variate / share - client.variate)

    def upload(self, sent: PairSent, client: Client, local: LocalResult, weight: Column) -> tuple[DeltaUpload, Client]:
        # c is subtracted undivided although form="feddc" steps with c/ω_i: the authors' code, and what was published.
        variate = client.variate - sent.variate - local.delta / self._travelled(local)
        return DeltaUpload(local.delta), Client(variate)

    def weigh(self, local: Local, weight: Column) -> Weights:
        share = self._share(weight)
        counts = weight if self.weighted else torch.ones_like(weight)
        return {"model": counts, "share": share, "gradient": share / self._travelled(local)}

    def aggregate(self, server: Server, means: Means, cohort: Cohort) -> Server:
        received = server.variate if cohort.sent is None else cohort.sent.variate  # what clients subtracted
        mean, change = means["model"], means["share"].weight * received + means["gradient"].delta
        update = mean.average if self.weighted else mean.delta
        model, opt = self.server.step(server.model, update, server.opt, mean, cohort)
        return Server(model, server.variate - cohort.participation * change, opt)

    def _share(self, weight: Column) -> Column:
        return weight if self.form == "feddc" or self.weighted else torch.ones_like(weight)

    def _travelled(self, local: Local) -> Column:
        """K_i η: what a gradient was multiplied by in local training, all steps together."""
        steps = local.reach if self.steps == "own" else torch.full_like(local.steps, local.nominal)
        return steps * (local.lr if self.lr == "first" else local.rate)
