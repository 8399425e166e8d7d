"""The few types that every layer shares.

| name | shape | meaning |
|---|---|---|
| Vector | (P,) | one value per trainable parameter |
| Rows | (K, P) | one vector per client of a cohort; (1, P) for a client on its own |
| Column | (K, 1) | one number per client |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

Vector: TypeAlias = Tensor
Rows: TypeAlias = Tensor
Column: TypeAlias = Tensor


class Correction(NamedTuple):
    """What a method changes in the local steps of a round; all of it is constant during the round.

    The kernel begins at ``w + start`` and takes ``scale·∇L(θ + ahead) + linear + prox·θ``, clips it, then adds
    ``decay·θ``. A pull towards an anchor, ``prox·(θ − anchor)``, is written as ``linear = −prox·anchor``.
    """

    linear: Rows | None = None
    prox: Column | float = 0.0
    decay: Column | float = 0.0
    scale: Column | float = 1.0
    """Of ∇L; above 0."""
    start: Rows | None = None
    """Where local training begins, as an offset from w."""
    ahead: Rows | None = None
    """Where gradients are taken, as an offset from θ."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What everyone knows of a round before it begins."""

    round: int
    """Rounds count from 1."""
    nominal: int
    """K, the nominal number of local steps: epochs × ceil(mean samples / batch size), the same for all clients."""
    lr: float
    """η, the learning rate before any decay over rounds."""
    rate: float
    """η_t, the learning rate of this round."""
    momentum: float = 0.0
    """Of the local steps; it begins anew in every round."""


@dataclass(frozen=True, kw_only=True)
class Local(Schedule):
    """What server and client both know of the clients' local training."""

    steps: Column
    """K_i, the number of steps that each client takes."""

    @property
    def reach(self) -> Column:
        """How many times η_t · (a gradient) makes up Δ_i: K_i, or Σ_k (1 − ρ^k)/(1 − ρ) with momentum ρ."""
        rho = self.momentum
        return (self.steps - rho * (1 - rho**self.steps) / (1 - rho)) / (1 - rho)


@dataclass(frozen=True, kw_only=True)
class LocalResult(Local):
    """What local training left behind, as a method's ``upload`` sees it."""

    delta: Rows
    """θ_i − w: new minus old, always."""


@dataclass(frozen=True, kw_only=True)
class Cohort(Schedule):
    """What the server knows of the clients that took part in a round."""

    participation: float
    """K/N: how many of all clients took part."""
    size: int
    """How many clients took part."""
    sent: Any = None
    """The broadcast as clients received it, where that is not what ``broadcast`` gave: it may be compressed."""


Weights: TypeAlias = Mapping[str, Column]
"""The weights under which a method wants the mean of its uploads, by name."""


@dataclass(frozen=True)
class Mean:
    """The uploads of a cohort under one weight c_i: the server sees nothing else of a client."""

    upload: Any
    """The mean of c_i · upload_i over the cohort, field by field."""
    weight: float = 1.0
    """The mean of c_i."""
    square: float = 0.0
    """The mean of c_i ‖Δ_i‖²."""

    @property
    def delta(self) -> Vector:
        """The mean of c_i Δ_i."""
        delta: Vector = self.upload.delta
        return delta

    @property
    def average(self) -> Vector:
        """Σ c_i Δ_i / Σ c_i."""
        return self.delta / self.weight

    @property
    def spread(self) -> float:
        """Σ c_i ‖Δ_i − average‖² / Σ c_i: how far the clients disagree."""
        return max(0.0, self.square / self.weight - float(torch.linalg.vector_norm(self.average)) ** 2)


Means: TypeAlias = Mapping[str, Mean]
"""What ``aggregate`` is given: the mean for each weight that the method named."""
