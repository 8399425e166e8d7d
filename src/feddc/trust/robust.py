"""What a server does with updates that it cannot trust.

A rule looks at the updates of a whole cohort and says what it uses of each: a ``Filter``, small enough to tell every
client, who then keeps what the server used and not what it sent. So whatever a rule does, a client's drift and variate
agree with the server's sums.

| rule | what is used | holds against |
|---|---|---|
| `norm:1` | Δ_i shortened to 1 × the cohort's median length | a minority that sends long updates; bounds all others |
| `trimmed-mean:0.2` | by coordinate, without the largest and smallest fifth | up to that share of clients |
| `median` | by coordinate, the median | a minority |
| `centered-clip:1` | what is within 1 × the median distance of a robust centre | a minority |

The price is paid by honest clients that differ: where data is not identically distributed, the coordinates that only a
few clients move are the first to be cut.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import torch

from .. import specs
from ..errors import check, check_count, check_number
from ..types import Column, Rows, Vector


class Filter(NamedTuple):
    """What was done with the updates of a cohort: clamp(centre + factor_i (Δ_i − centre), low, high) + shift.

    With both a centre and bounds, what is outside of the bounds becomes the centre instead of the nearest bound.
    """

    factor: Column
    """One number for each client; 1 where its update was used as it was."""
    centre: Vector | None = None
    low: Vector | None = None
    high: Vector | None = None
    shift: Vector | None = None

    def used(self, delta: Rows) -> Rows:
        """What the server uses of these updates."""
        found = self.factor * delta if self.centre is None else torch.lerp(self.centre, delta, self.factor)
        if self.low is not None and self.high is not None:
            if self.centre is None:
                found = torch.clamp(found, self.low, self.high)
            else:
                found = torch.where((found >= self.low) & (found <= self.high), found, self.centre)
        return found if self.shift is None else found + self.shift

    @property
    def nbytes(self) -> int:
        """What one client has to be told."""
        shared = (self.centre, self.low, self.high, self.shift)
        return self.factor.element_size() + sum(each.nbytes for each in shared if each is not None)

    def of(self, rows: list[int]) -> Filter:
        """The same for some of the clients."""
        return self._replace(factor=self.factor[rows])


class Rule(Protocol):
    def filter(self, delta: Rows) -> Filter:
        """What to use of the updates of a cohort, rows (K, P)."""
        ...


@dataclass(frozen=True)
class Norm:
    """Updates longer than times × the cohort's median length are shortened to it."""

    times: float = 1.0

    def __post_init__(self) -> None:
        check_number("times", self.times, 0, above=True)

    def filter(self, delta: Rows) -> Filter:
        return Filter(_within(self.times, delta))


@dataclass(frozen=True)
class TrimmedMean:
    """The mean of each coordinate without the share of clients at either end, rounded up to whole clients.

    A client remembers what was cut of its update as the nearest value that was kept, or with cut=mean as the mean.
    """

    share: float = 0.2
    cut: Literal["nearest", "mean"] = "nearest"

    def __post_init__(self) -> None:
        check_number("share", self.share, 0, 0.5)
        check(self.cut in ("nearest", "mean"), f"cut must be nearest or mean, not {self.cut!r}")

    def filter(self, delta: Rows) -> Filter:
        count = len(delta)
        cut = min(math.ceil(self.share * count), (count - 1) // 2)
        ordered = delta.sort(dim=0).values
        kept = ordered[cut : count - cut]
        if self.cut == "mean":
            # The mean of all is then that of the kept ones; only a value equal to the last kept one is kept too.
            return Filter(torch.ones_like(delta[:, :1]), kept.mean(dim=0), kept[0], kept[-1])
        # Cut values are moved to the nearest kept one, and all by the same little to have the mean of the kept ones.
        return _about(kept.mean(dim=0), kept[0], kept[-1], delta)


@dataclass(frozen=True)
class Median:
    """The median of each coordinate; what a client keeps is within twice the median deviation of it."""

    def filter(self, delta: Rows) -> Filter:
        middle = _median(delta)
        spread = 2 * _median((delta - middle).abs())
        return _about(middle, middle - spread, middle + spread, delta)


@dataclass(frozen=True)
class CenteredClip:
    """Updates further than times × the median distance from a robust centre are pulled in to it."""

    times: float = 1.0
    iterations: int = 3

    def __post_init__(self) -> None:
        check_number("times", self.times, 0, above=True)
        check_count("iterations", self.iterations)

    def filter(self, delta: Rows) -> Filter:
        centre = _median(delta)  # Karimireddy et al. begin at the last round's mean, which a new cohort need not have
        found = Filter(_within(self.times, delta - centre), centre)
        for _ in range(self.iterations - 1):
            centre = found.used(delta).mean(dim=0)
            found = Filter(_within(self.times, delta - centre), centre)
        return found


ROBUST: specs.Registry = {"norm": Norm, "trimmed-mean": TrimmedMean, "median": Median, "centered-clip": CenteredClip}


def make_rule(text: str) -> Rule:
    """A rule from its name and option: ``trimmed-mean:0.2``."""
    rule: Rule = specs.make("robust rule", ROBUST, text)
    return rule


def _within(times: float, rows: Rows) -> Column:
    """The factors that bring rows to at most times × their median length."""
    length = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    bound = times * _median(length)
    return torch.where(length > bound, bound / length, 1.0).to(rows.dtype).unsqueeze(1)


def _median(rows: Rows) -> Vector:
    """Over clients, the mean of the middle two where their number is even."""
    ordered = rows.sort(dim=0).values
    return (ordered[(len(rows) - 1) // 2] + ordered[len(rows) // 2]) / 2


def _about(wanted: Vector, low: Vector, high: Vector, delta: Rows) -> Filter:
    """Clamp to [low, high], then shift all by the same so that the mean is ``wanted``."""
    found = Filter(torch.ones_like(delta[:, :1]), None, low, high)
    return found._replace(shift=wanted - found.used(delta).mean(dim=0))
