"""Server optimisers: what the server does with the update that a method proposes.

A method proposes ``update`` = (the model it would move to) − w, the pseudo-gradient of Reddi et al., "Adaptive
Federated Optimization" (ICLR 2021). ``SGD(lr=1)``, the default, takes it as it is. The adaptive ones are Algorithm 2 of
that paper: no bias correction, the second moment starts at τ², Adagrad without momentum unless asked for.

``ExP`` is FedExP, Jhunjhunwala et al., "FedExP: Speeding up Federated Averaging via Extrapolation" (ICLR 2023): with
u_i the update that client i would make alone, the step is longer the more the clients disagree,

    w ← w + max(1, mean ‖u_i‖² / (2 (‖update‖² + |S| ε_t))) · update,   ε_t = ε (η_t/η)²

and the mean of the last two models is what is evaluated. The paper has neither |S| nor the decay of ε.

| symbol | here |
|---|---|
| Δ_t | update |
| m_t, v_t | first, second (moments) |
| η, β1, β2, τ | lr, beta1, beta2, tau |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, TypeAlias

import torch

from ..errors import check, check_number
from ..types import Cohort, Mean, Vector

OptState: TypeAlias = tuple[Vector, ...]


class ServerOptimizer(Protocol):
    """Pure state passing: ``step`` returns the new model and the new state.

    ``mean`` is the mean that ``update`` was made from, with its weight and the clients' spread about it.
    """

    def init(self, model: Vector) -> OptState: ...
    def step(
        self, model: Vector, update: Vector, state: OptState, mean: Mean, cohort: Cohort
    ) -> tuple[Vector, OptState]: ...


@dataclass(frozen=True)
class SGD:
    """A server learning rate and momentum (FedAvgM).

    ``of="gradient"`` is momentum of update/η_t, as FedNova's authors have it: where clients' rate falls, what the
    momentum carries on falls with it.
    """

    lr: float = 1.0
    momentum: float = 0.0
    of: Literal["update", "gradient"] = "update"

    def __post_init__(self) -> None:
        check_number("server lr", self.lr, 0, above=True)
        _check_below_one("momentum", self.momentum)
        check(self.of in ("update", "gradient"), f"server of must be 'update' or 'gradient', not {self.of!r}")

    def init(self, model: Vector) -> OptState:
        return (torch.zeros_like(model),) if self.momentum else ()

    def step(
        self, model: Vector, update: Vector, state: OptState, mean: Mean, cohort: Cohort
    ) -> tuple[Vector, OptState]:
        if self.momentum:
            rate = cohort.rate if self.of == "gradient" else 1.0
            velocity = self.momentum * state[0] + update / rate
            update, state = rate * velocity, (velocity,)
        return model + self.lr * update, state


class Adaptive:
    """What the adaptive optimisers share: steps scaled by moments, of which ``second_moment`` is an optimiser's own."""

    lr: float
    beta1: float
    tau: float
    beta2: float = 0.0

    def __post_init__(self) -> None:
        check_number("server lr", self.lr, 0, above=True)
        check_number("server tau", self.tau, 0, above=True)
        _check_below_one("beta1", self.beta1)
        _check_below_one("beta2", self.beta2)

    def init(self, model: Vector) -> OptState:
        return torch.zeros_like(model), torch.full_like(model, self.tau**2)

    def step(
        self, model: Vector, update: Vector, state: OptState, mean: Mean, cohort: Cohort
    ) -> tuple[Vector, OptState]:
        first, second = state
        first = self.beta1 * first + (1 - self.beta1) * update
        second = self.second_moment(second, update**2)
        return model + self.lr * first / (second.sqrt() + self.tau), (first, second)

    def second_moment(self, second: Vector, square: Vector) -> Vector:
        """v after an update whose square, by coordinate, is this."""
        raise NotImplementedError


@dataclass(frozen=True)
class Adam(Adaptive):
    """Adam on the server: v ← β2 v + (1 − β2) Δ²."""

    lr: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3

    def second_moment(self, second: Vector, square: Vector) -> Vector:
        return self.beta2 * second + (1 - self.beta2) * square


@dataclass(frozen=True)
class Yogi(Adaptive):
    """Yogi on the server: v ← v − (1 − β2) Δ² sign(v − Δ²)."""

    lr: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3

    def second_moment(self, second: Vector, square: Vector) -> Vector:
        return second - (1 - self.beta2) * square * torch.sign(second - square)


@dataclass(frozen=True)
class Adagrad(Adaptive):
    """Adagrad on the server: v ← v + Δ²."""

    lr: float = 0.1
    beta1: float = 0.0
    tau: float = 1e-3

    def second_moment(self, second: Vector, square: Vector) -> Vector:
        return second + square


@dataclass(frozen=True)
class ExP:
    """FedExP: a longer step the more the clients disagree."""

    eps: float = 1e-3
    form: Literal["code", "paper"] = "code"
    reads_spread: ClassVar[bool] = True  # which neither noisy nor masked sums have

    def __post_init__(self) -> None:
        check_number("server eps", self.eps, 0, above=True)
        check(self.form in ("code", "paper"), f"server form must be 'code' or 'paper', not {self.form!r}")

    def init(self, model: Vector) -> OptState:
        return (model,)

    def step(
        self, model: Vector, update: Vector, state: OptState, mean: Mean, cohort: Cohort
    ) -> tuple[Vector, OptState]:
        # mean ‖u_i‖², where u_i = update + (Δ_i − mean Δ): whatever a method adds for all clients, they share.
        square = float(torch.linalg.vector_norm(update)) ** 2
        least = self.eps * (1.0 if self.form == "paper" else cohort.size * (cohort.rate / cohort.lr) ** 2)
        new = model + max(1.0, (square + mean.spread) / (2 * (square + least))) * update
        return new, (new if cohort.round == 1 else model,)

    def evaluated(self, model: Vector, state: OptState) -> Vector:
        return (model + state[0]) / 2


def _check_below_one(name: str, value: float) -> None:
    check_number(f"server {name}", value, 0, 1)
    check(value < 1, f"server {name} must be below 1, not {value}")
