"""Differential privacy of clients: each update is clipped to a length C, and Gaussian noise hides who took part.

| where the noise is added | standard deviation | who is trusted with the updates |
|---|---|---|
| `central`: by the server, to the sum | σ C | the server |
| `distributed`: by each site, to its own | σ C / √m, m = the fewest that answer | nobody, with secure aggregation |
| `local`: by each site, to its own | σ C | nobody |

Everything that a method computes from the noisy sums (model, drift, variate) is post-processing: it costs nothing more.
So a round of FedDC costs what a round of FedAvg does. Where the clients' weights are not in proportion, a method that
wants two differently weighted sums gets both noisier by √2 instead, for the same cost.

ε is that of `dp-accounting`'s Rényi accountant, at client level: with and without one client, or for cohorts of a fixed
size, one client replaced by another. How many samples a client has is taken as public.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import torch

from .. import specs
from ..errors import ConfigError, check, check_number
from ..types import Column, Rows, Vector

ORDERS = (*range(2, 33), 36, 40, 48, 56, 64, 80, 96, 128, 192, 256)
DELTA = 1e-5


@dataclass(frozen=True)
class Draws:
    """How the clients of a round are drawn, as far as privacy depends on it."""

    clients: int
    size: float
    """How many take part, on average."""
    random: bool
    """Drawn anew every round, so that nobody knows whether a client took part."""
    fixed: bool
    """Always the same number, drawn without replacement; otherwise each on its own."""


class Privacy(Protocol):
    clip: float
    noise: float | None
    hidden: ClassVar[bool]
    """Whether nobody but the one who adds the noise knows who took part."""

    def site_deviation(self, least: float) -> float:
        """The standard deviation of the noise that each site adds, relative to clip, where ``least`` sites answer."""
        ...

    def server_deviation(self) -> float:
        """The standard deviation of the noise that the server adds to a sum, relative to clip."""
        ...


@dataclass(frozen=True)
class CentralNoise:
    """Updates are clipped and the server adds noise to their sum."""

    clip: float = 1.0
    noise: float | None = None
    hidden: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("clip", self.clip, 0, above=True)
        check_number("noise", self.noise, 0, optional=True)

    def site_deviation(self, least: float) -> float:
        return 0.0

    def server_deviation(self) -> float:
        return self.noise or 0.0


@dataclass(frozen=True)
class DistributedNoise(CentralNoise):
    """Each site clips its update and adds its part of the noise that the sum needs."""

    hidden: ClassVar[bool] = False

    def site_deviation(self, least: float) -> float:
        return (self.noise or 0.0) / math.sqrt(least)

    def server_deviation(self) -> float:
        return 0.0


@dataclass(frozen=True)
class LocalNoise(CentralNoise):
    """Each site clips its update and adds noise enough to hide it from the server."""

    hidden: ClassVar[bool] = False

    def site_deviation(self, least: float) -> float:
        return self.noise or 0.0

    def server_deviation(self) -> float:
        return 0.0


PRIVACY: specs.Registry = {"central": CentralNoise, "distributed": DistributedNoise, "local": LocalNoise}


def make_privacy(text: str) -> Privacy:
    """A mechanism from its text: ``central:clip=0.5:noise=1.1``."""
    found: Privacy = specs.make("privacy", PRIVACY, text)
    return found


def clipped(delta: Rows, clip: float) -> tuple[Rows, Column]:
    """Rows of length at most ``clip``, and the factors that made them so; a row with NaN or Inf counts as nothing."""
    length = torch.linalg.vector_norm(delta, dim=1, keepdim=True, dtype=torch.float64)
    factor = torch.where(length > clip, clip / length, 1.0).to(delta.dtype)
    factor = torch.where(length.isfinite(), factor, 0.0)
    return torch.where(factor > 0, factor * delta.nan_to_num(), 0.0), factor


def noise_like(vector: Rows | Vector, deviation: float, generator: np.random.Generator) -> Rows:
    """Gaussian noise of that standard deviation."""
    return torch.from_numpy(generator.standard_normal(tuple(vector.shape)) * deviation).to(vector.dtype)


class Budget:
    """How much ε some rounds cost, and how many there may be."""

    def __init__(self, privacy: Privacy, draws: Draws, delta: float = DELTA, epsilon: float | None = None) -> None:
        check_number("delta", delta, 0, 1, above=True)
        check_number("epsilon", epsilon, 0, above=True, optional=True)
        check(privacy.noise is not None, "the noise is not known yet: plan it")
        self.delta, self.limit = delta, epsilon
        self._round_cost = None if not privacy.noise else round_cost(float(privacy.noise), draws, privacy.hidden)

    def epsilon(self, rounds: int) -> float:
        """ε after so many rounds; infinite without noise."""
        if rounds == 0:
            return 0.0
        if self._round_cost is None:
            return math.inf
        return _epsilon(self._round_cost, rounds, self.delta)

    def allows(self, rounds: int) -> bool:
        """Whether so many rounds stay within the limit."""
        return self.limit is None or self.epsilon(rounds) <= self.limit * (1 + 1e-9)


def planned(privacy: Privacy, draws: Draws, rounds: int, epsilon: float, delta: float = DELTA) -> float:
    """The smallest noise, to 0.1 %, with which ``rounds`` rounds cost at most ``epsilon``."""
    check_number("epsilon", epsilon, 0, above=True)
    check_number("delta", delta, 0, 1, above=True)

    def cost(noise: float) -> float:
        return _epsilon(round_cost(noise, draws, privacy.hidden), rounds, delta)

    low, high = 0.05, 1.0
    while cost(high) > epsilon:
        low, high = high, 2 * high
        check(high < 1e6, f"no noise makes {rounds} rounds cost only epsilon {epsilon:g}: ask for fewer rounds")
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if cost(middle) <= epsilon else (middle, high)
    return high


@functools.lru_cache(maxsize=512)
def round_cost(noise: float, draws: Draws, hidden: bool) -> tuple[float, ...]:
    """The Rényi divergence of one round, for each of ``ORDERS``."""
    accounting = _accounting()
    event: Any = accounting.GaussianDpEvent(noise)
    relation = accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    if hidden and draws.random and draws.size < draws.clients:
        if draws.fixed:  # a client that is replaced changes the sum by up to twice the clip
            event = accounting.GaussianDpEvent(noise / 2)
            event = accounting.SampledWithoutReplacementDpEvent(draws.clients, round(draws.size), event)
            relation = accounting.NeighboringRelation.REPLACE_ONE
        else:
            event = accounting.PoissonSampledDpEvent(draws.size / draws.clients, event)
    accountant = accounting.rdp.RdpAccountant(orders=list(ORDERS), neighboring_relation=relation)
    accountant.compose(event)
    return tuple(float(each) for each in accountant._rdp)  # kept, as computing it for every round takes too long


def _epsilon(cost: tuple[float, ...], rounds: int, delta: float) -> float:
    accounting = _accounting()
    return float(accounting.rdp.compute_epsilon(list(ORDERS), [rounds * each for each in cost], delta)[0])


def _accounting() -> Any:
    try:
        import dp_accounting
        import dp_accounting.rdp
    except ImportError:
        raise ConfigError("privacy needs dp-accounting: pip install 'feddc[privacy]'") from None
    return dp_accounting
