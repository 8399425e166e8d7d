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
    """What a method adds to the gradient of every local step.

    The kernel takes ``∇L(θ) + linear + prox·θ``, clips it, then adds ``decay·θ``. A pull towards an
    anchor, ``prox·(θ − anchor)``, is written as ``linear = −prox·anchor``: it is constant during a round.
    """

    linear: Rows | None = None
    prox: Column | float = 0.0
    decay: Column | float = 0.0


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


@dataclass(frozen=True, kw_only=True)
class Local(Schedule):
    """What server and client both know of the clients' local training."""

    steps: Column
    """K_i, the number of steps that each client takes."""


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
