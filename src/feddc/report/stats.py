"""What seeds allow to say: mean and deviation, and paired differences with their interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

LEVEL = 0.95
TEST = "paired t-test"


@dataclass(frozen=True)
class Paired:
    """The mean over seeds of one method's value less another's, with its 95 % interval (paired t-test)."""

    difference: float
    low: float
    high: float
    p: float
    seeds: int

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0


def paired(one: Mapping[Any, float], other: Mapping[Any, float], step: float = 0.0) -> Paired | None:
    """``one`` less ``other`` over the seeds that both have; None where there are fewer than two.

    ``step`` is how finely the values are measured: two or three differences that happen to be equal do not make the
    interval narrower than that. Without a step, equal differences have no interval, so nothing is claimed from them.
    """
    from scipy import stats

    common = [seed for seed in one if seed in other]
    if len(common) < 2:
        return None
    differences = [one[seed] - other[seed] for seed in common]
    centre, error = mean(differences), max(stdev(differences), step) / math.sqrt(len(common))
    if error == 0:
        return Paired(centre, -math.inf, math.inf, 1.0, len(common))
    freedom = len(common) - 1
    reach = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * error
    p = 2 * float(stats.t.sf(abs(centre) / error, freedom))
    return Paired(centre, centre - reach, centre + reach, p, len(common))


def spread(values: Sequence[float], digits: int) -> str:
    """Mean ± standard deviation, or the value itself where there is only one."""
    return f"{mean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")
