"""Which line is first, and of which others a difference to it is shown: never more than the seeds support."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TypeAlias

from .lines import Line
from .runs import Repeat
from .stats import Paired, paired

BySeed: TypeAlias = Mapping[Repeat, float]


@dataclass(frozen=True)
class Ranking:
    """The first of some lines, and the others: those that are level with it as far as is shown, and those behind."""

    first: Line
    level: tuple[Line, ...]
    behind: tuple[tuple[Line, Paired], ...]
    seeds: int
    """The seeds that every comparison had at least."""

    @property
    def claim(self) -> bool:
        """Whether the first is shown to be ahead of all others."""
        return bool(self.behind) and not self.level


def rank(lines: Sequence[Line], values: Callable[[Line], BySeed], *, higher: bool, step: float = 0.0) -> Ranking | None:
    """The lines whose seeds were all run to their end, by the mean of ``values``; None where there are none."""
    judged = [(line, values(line)) for line in lines if line.complete]
    known = [(line, each) for line, each in judged if each]
    if not known:
        return None
    sign = 1 if higher else -1
    first, best = max(known, key=lambda pair: sign * mean(pair[1].values()))
    level, behind = [], []
    for line, each in known:
        found = paired(best, each, step)
        if line is first:
            continue
        if found is not None and found.significant and sign * found.difference > 0:
            behind.append((line, found))
        else:
            level.append(line)
    seeds = min(len(best.keys() & each.keys()) for _, each in known)
    return Ranking(first, tuple(level), tuple(behind), seeds)


def best_ranking(lines: Sequence[Line]) -> Ranking | None:
    """By best score."""
    return rank(lines, Line.best, higher=lines[0].measure.higher)


def rounds_ranking(lines: Sequence[Line], target: float) -> Ranking | None:
    """By rounds to the target. A seed that did not get there counts as if it did at its next evaluation, which is the
    least that it may take: what is behind is behind by at least so much."""
    step = _step(lines)

    def values(line: Line) -> BySeed:
        return {seed: each.rounds + (0 if each.reached else step) for seed, each in line.reach(target).items()}

    return rank(lines, values, higher=False, step=step)


def moved_ranking(lines: Sequence[Line], target: float) -> Ranking | None:
    """By bytes to the target, likewise, of the lines that get there with any seed."""

    def values(line: Line) -> BySeed:
        return {seed: float(each.moved) for seed, each in line.reach(target).items()}

    arrives = [line for line in lines if any(each.reached for each in line.reach(target).values())]
    return rank(arrives, values, higher=False)


def _step(lines: Sequence[Line]) -> float:
    """Rounds are known as finely as the model is evaluated."""
    return float(max(run.config.evaluate_every for line in lines for run in line.runs))
