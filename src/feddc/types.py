"""The few types that every layer shares.

| name | shape | meaning |
|---|---|---|
| Vector | (P,) | one value per trainable parameter |
| Rows | (K, P) | one vector per client of a cohort; (1, P) for a client on its own |
| Column | (K, 1) | one number per client |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    previous: Rows | None = None
    """Another model that the method's own loss looks at, such as the one that the client trained last."""
    dual: Rows | None = None
    """With ``consensus`` subtracted from the gradient that a sharpness-aware step climbs. Every step moves it, by the
    climb minus ``consensus``; ``LocalResult.dual`` is what it has become."""
    consensus: Rows | None = None
    """Given if and only if ``dual`` is."""


VECTORS = ("linear", "start", "ahead", "previous", "dual", "consensus")
"""The parts of a correction that are a row for each client."""
COLUMNS = ("prox", "decay", "scale")
"""Those that are a number for each client."""


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
    dual: Rows | None = None
    """What the local steps made of ``Correction.dual``; None where there was none, or no training."""


@dataclass(frozen=True, kw_only=True)
class Cohort(Schedule):
    """What the server knows of the clients that took part in a round."""

    participation: float
    """K/N: how many of all clients took part."""
    size: int
    """How many clients took part."""
    sent: Any = None
    """The broadcast as clients received it, where that is not what ``broadcast`` gave: it may be compressed."""


class Seen(NamedTuple):
    """What a model makes of a batch of B samples."""

    output: Any
    features: Tensor | None = None
    """(B, d), what its last linear layer is given; None unless the method says ``needs_features = True``."""


@dataclass(frozen=True, kw_only=True)
class LossBatch:
    """What a method's own local loss is given of a batch of B samples."""

    losses: Callable[[Any, Tensor], Tensor]
    """The task's: of output and target, one number per sample (B,)."""
    target: Tensor
    own: Seen
    """By the model that is trained: what the gradient is taken of."""
    counts: Tensor
    """How many samples of each class the client trains on, (classes,)."""
    received: Seen | None = None
    """By the global model of this round; None unless the method says ``needs_reference = True``."""
    previous: Seen | None = None
    """By ``Correction.previous``, where the method gives one."""
    real: Tensor
    """(B,), 1 or 0: a short batch of clients that train in rows is filled up with samples that do not count. Only a
    loss that looks at several samples together has to mind."""


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
