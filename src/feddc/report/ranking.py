"""Which line is first, and of which others a difference to it is shown: never more than the seeds support."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TypeAlias

from .lines import Line
from .measure import Measure
from .runs import Repeat
from .stats import Paired, paired

BySeed: TypeAlias = Mapping[Repeat, float]


@dataclass(frozen=True)
class Judge:
    """What lines are compared by."""

    values: Callable[[Line], BySeed]
    higher: bool
    in_rounds: bool = False
    """Rounds are known as finely as the model is evaluated."""

    def compare(self, one: Line, other: Line) -> Paired | None:
        """One less the other, over the seeds that both have."""
        return paired(self.values(one), self.values(other), max(_step(one), _step(other)) if self.in_rounds else 0.0)


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


def rank(lines: Sequence[Line], judge: Judge) -> Ranking | None:
    """The lines whose seeds were all run to their end, by the mean of what they are judged by, if there are any."""
    known = [(line, each) for line in lines if line.complete and (each := judge.values(line))]
    if not known:
        return None
    sign = 1 if judge.higher else -1
    first, best = max(known, key=lambda pair: sign * mean(pair[1].values()))
    level, behind = [], []
    for line, _ in known:
        found = None if line is first else judge.compare(first, line)
        if found is not None and found.significant and sign * found.difference > 0:
            behind.append((line, found))
        elif line is not first:
            level.append(line)
    seeds = min(len(best.keys() & each.keys()) for _, each in known)
    return Ranking(first, tuple(level), tuple(behind), seeds)


def by_best(measure: Measure) -> Judge:
    """By best score."""
    return Judge(Line.best, measure.higher_is_better)


def by_rounds(target: float) -> Judge:
    """By rounds to the target. A seed that did not get there counts as if it did at its next evaluation, which is the
    least that it may take: what is behind is behind by at least so much."""

    def values(line: Line) -> BySeed:
        return {seed: each.rounds + (0 if each.reached else _step(line)) for seed, each in line.reach(target).items()}

    return Judge(values, higher=False, in_rounds=True)


def by_bytes(target: float) -> Judge:
    """By bytes to the target, likewise, of the lines that get there with any seed."""

    def values(line: Line) -> BySeed:
        found = line.reach(target)
        if not any(each.reached for each in found.values()):
            return {}
        return {seed: float(each.moved) for seed, each in found.items()}

    return Judge(values, higher=False)


def _step(line: Line) -> float:
    return float(max(run.config.evaluate_every for run in line.runs))
