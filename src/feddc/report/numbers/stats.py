"""What seeds allow to say: mean and deviation, and paired differences with their interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev
from typing import Any

CHANCE = 0.05
"""The p below which a difference is shown, and what an interval leaves out."""
TEST = "paired t-test"


@dataclass(frozen=True)
class Paired:
    """The mean over seeds of one method's value less another's, with its 95 % interval (paired t-test)."""

    difference: float
    low: float
    high: float
    p: float
    seeds: int
    corrected: float
    """p after the correction for the number of comparisons."""
    comparisons: int = 1

    @property
    def significant(self) -> bool:
        """Whether a difference is shown: then the interval leaves out 0 too."""
        return self.corrected < CHANCE

    def reverse(self) -> Paired:
        """The other less the one."""
        return replace(self, difference=0 - self.difference, low=-self.high, high=-self.low)  # 0 −: there is no −0

    def undecided(self) -> Paired:
        """Without an interval: nothing is known of the difference, and none is shown."""
        return replace(self, low=-math.inf, high=math.inf, p=1.0, corrected=1.0)

    @property
    def test(self) -> str:
        """The test in words, with what it gave."""
        correction = f" (Holm, {self.comparisons} comparisons)" if self.comparisons > 1 else ""
        return f"{TEST}, {self.seeds} seeds, p = {self.corrected:.2g}{correction}"


def correct(found: Sequence[Paired]) -> list[Paired]:
    """Holm's correction for these comparisons: wrongly to show any difference among them has 5 % chance at most."""
    order = sorted(range(len(found)), key=lambda i: found[i].p)
    corrected, largest = list(found), 0.0
    for place, i in enumerate(order):
        largest = max(largest, min(1.0, (len(found) - place) * found[i].p))
        corrected[i] = replace(found[i], corrected=largest, comparisons=len(found))
    return corrected


def paired(one: Mapping[Any, float], other: Mapping[Any, float], step: float = 0.0) -> Paired | None:
    """``one`` less ``other`` over the seeds that both have; None where there are fewer than two.

    ``step`` is how finely the values are measured: two or three differences that happen to be equal do not make the
    interval narrower than that. Without a step, differences that are equal (up to rounding) have no interval, so
    nothing is claimed from them.
    """
    common = [seed for seed in one if seed in other]
    if len(common) < 2:
        return None
    differences = [one[seed] - other[seed] for seed in common]
    rounding = 1e-9 * max(abs(values[seed]) for values in (one, other) for seed in common)
    deviation = stdev(differences)
    centre, error = mean(differences), max(deviation if deviation > rounding else 0.0, step) / math.sqrt(len(common))
    if error == 0:
        return Paired(centre, 0.0, 0.0, 1.0, len(common), 1.0).undecided()
    from scipy.special import stdtr, stdtrit  # Student's t, without the second that importing scipy.stats takes

    freedom = len(common) - 1
    reach = float(stdtrit(freedom, 1 - CHANCE / 2)) * error
    p = 2 * float(stdtr(freedom, -abs(centre) / error))
    return Paired(centre, centre - reach, centre + reach, p, len(common), p)


def spread(values: Sequence[float], digits: int) -> str:
    """Mean ± standard deviation, or the value itself where there is only one."""
    return f"{mean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")
