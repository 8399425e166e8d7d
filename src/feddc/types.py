"""The few types that every layer shares.

| name | shape | meaning |
|---|---|---|
| Vector | (P,) | one value per trainable parameter |
| Rows | (K, P) | one vector per client of a cohort; (1, P) for a client on its own |
| Column | (K, 1) | one number per client |
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

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


class LocalResult(NamedTuple):
    """What local training left behind, as a method's ``upload`` sees it."""

    delta: Rows
    """θ_i − w: new minus old, always."""
    steps: int
    """K, the nominal number of local steps: epochs × ceil(mean samples / batch size), the same for all clients."""
    lr: float
    """η, the learning rate before any decay over rounds."""


class Cohort(NamedTuple):
    """What the server knows of the clients that took part in a round."""

    participation: float
    """K/N: how many of all clients took part."""
    weight: float
    """The mean of ω_i = n_i / mean(n) over the cohort."""
