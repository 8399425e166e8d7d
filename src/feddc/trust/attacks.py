"""What poisoned clients send. They know the cohort's honest updates, which is more than most attackers do.

The first ``clients`` clients are the attackers, in every round or from one to another (``window.py``). They keep state
like everyone else, and what they keep does not matter.

    sign-flip   −factor × the honest update
    scale       the honest update, stretched so that its largest coordinate is ``size``
    constant    ``factor`` × the median honest length in one and the same direction every round
    little      mean − z × standard deviation of the honest updates (Baruch et al. 2019, "A little is enough")
    labels      honest training on wrong labels: class c is learned as class (classes − 1 − c)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

import torch
from torch import Tensor

from .. import specs
from ..errors import check_count, check_number
from ..types import Rows, Vector


class Attack(Protocol):
    clients: int

    def poison(self, delta: Rows, bad: Tensor) -> Rows:
        """The cohort's updates as the server receives them; ``bad`` (K,) says who attacks."""
        ...

    def relabel(self, labels: Tensor, classes: int) -> Tensor:
        """The labels that an attacker learns."""
        ...


@dataclass(frozen=True)
class _OnUpdates:
    clients: int = 1

    def __post_init__(self) -> None:
        check_count("clients", self.clients)

    def relabel(self, labels: Tensor, classes: int) -> Tensor:
        return labels

    def poison(self, delta: Rows, bad: Tensor) -> Rows:
        if not bad.any() or bad.all():  # nobody to attack, or with
            return delta
        sent = delta.clone()
        sent[bad] = self.instead(delta[bad], delta[~bad], len(delta))
        return sent

    def instead(self, own: Rows, honest: Rows, cohort: int) -> Rows:
        """What the attackers send instead of their own updates."""
        raise NotImplementedError


@dataclass(frozen=True)
class SignFlip(_OnUpdates):
    """Attackers send −factor × their update."""

    factor: float = 10.0

    def instead(self, own: Rows, honest: Rows, cohort: int) -> Rows:
        return -self.factor * own


@dataclass(frozen=True)
class Scale(_OnUpdates):
    """Attackers stretch their update to a largest coordinate of size."""

    size: float = 9e7

    def instead(self, own: Rows, honest: Rows, cohort: int) -> Rows:
        return own * (self.size / own.abs().amax(dim=1, keepdim=True).clamp(min=1e-12))


@dataclass(frozen=True)
class Constant(_OnUpdates):
    """Attackers push in one direction, factor × the median honest length, every round."""

    factor: float = 10.0

    def instead(self, own: Rows, honest: Rows, cohort: int) -> Rows:
        length = float(torch.linalg.vector_norm(honest, dim=1).median())
        return (self.factor * length * _direction(own.shape[1]).to(own)).expand_as(own)


@dataclass(frozen=True)
class Little(_OnUpdates):
    """Attackers hide within the spread of honest updates: mean − z × standard deviation."""

    z: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("z", self.z, 0, optional=True)

    def instead(self, own: Rows, honest: Rows, cohort: int) -> Rows:
        z = self.largest_z(cohort, len(own)) if self.z is None else self.z
        spread = honest.std(dim=0, correction=0)
        return (honest.mean(dim=0) - z * spread).expand_as(own)

    @staticmethod
    def largest_z(cohort: int, attackers: int) -> float:
        """The paper's: as far out as enough honest clients still are for a majority to seem to agree."""
        needed = cohort // 2 + 1 - attackers
        share = (cohort - attackers - needed) / max(1, cohort - attackers)
        return max(0.3, NormalDist().inv_cdf(min(max(share, 1e-6), 1 - 1e-6)))


@dataclass(frozen=True)
class Labels(_OnUpdates):
    """Attackers learn class c as class (classes − 1 − c), and otherwise train honestly."""

    def relabel(self, labels: Tensor, classes: int) -> Tensor:
        return classes - 1 - labels

    def poison(self, delta: Rows, bad: Tensor) -> Rows:
        return delta


ATTACKS: specs.Registry = {
    "sign-flip": SignFlip,
    "scale": Scale,
    "constant": Constant,
    "little": Little,
    "labels": Labels,
}


def make_attack(text: str) -> Attack:
    """An attack from its name and options: ``sign-flip:3:factor=10`` for three attackers."""
    attack: Attack = specs.make("attack", ATTACKS, text)
    return attack


def _direction(size: int) -> Vector:
    """The same unit vector for everyone in every round."""
    drawn = torch.randn(size, generator=torch.Generator().manual_seed(17))
    return drawn / math.sqrt(float(drawn.square().sum()))
