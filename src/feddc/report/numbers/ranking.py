"""Which line is first, and of which others a difference to it is shown: never more than the seeds support."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TypeAlias

from ..lines import Line
from ..runs import Repeat
from .measure import Measure
from .stats import Paired, correct, paired

BySeed: TypeAlias = Mapping[Repeat, float]


@dataclass(frozen=True)
class Criterion:
    """What lines are compared by."""

    values: Callable[[Line], BySeed]
    higher: bool
    step: Callable[[Line], float] = lambda _: 0.0
    """How finely a line's values are known: rounds and bytes as finely as the model is evaluated."""

    def compare(self, first: Line, others: Sequence[Line]) -> list[tuple[Line, Paired]]:
        """The first less each of the others, over the seeds that both have, corrected for how many they are.

        Who shares fewer than two seeds with the first is not among them.
        """
        found = []
        for line in others:
            step = max(self.step(first), self.step(line))
            if (difference := paired(self.values(first), self.values(line), step)) is not None:
                found.append((line, difference))
        return list(zip([line for line, _ in found], correct([each for _, each in found]), strict=True))


@dataclass(frozen=True)
class Ranking:
    """The first of some lines, and the others: level with it as far as is shown, behind it, or not comparable."""

    first: Line
    level: tuple[Line, ...]
    behind: tuple[tuple[Line, Paired], ...]
    apart: tuple[Line, ...]
    """The lines that share fewer than two seeds with the first: nothing can be said of them."""
    seeds: int
    """The seeds that every comparison had at least; the first's own where there is none."""

    @property
    def claim(self) -> bool:
        """Whether the first is shown to be ahead of all others."""
        return bool(self.behind) and not self.level and not self.apart


def rank(lines: Sequence[Line], judge: Criterion) -> Ranking | None:
    """The lines whose seeds were all run to their end, by the mean of what they are judged by, if there are any."""
    known = [(line, each) for line in lines if line.complete and (each := judge.values(line))]
    if not known:
        return None
    choose = max if judge.higher else min
    repeated = [pair for pair in known if len(pair[1]) > 1]
    first, own = choose(repeated or known, key=lambda pair: mean(pair[1].values()))
    others = [line for line, _ in known if line is not first]
    found = judge.compare(first, others)
    behind = tuple(pair for pair in found if pair[1].significant and (pair[1].difference > 0) == judge.higher)
    level = tuple(pair[0] for pair in found if all(pair is not each for each in behind))
    apart = tuple(line for line in others if all(line is not each for each, _ in found))
    seeds = min((each.seeds for _, each in found), default=1 if apart else len(own))
    return Ranking(first, level, behind, apart, seeds)


def by_best(measure: Measure) -> Criterion:
    """By best score."""
    return Criterion(Line.best, measure.higher_is_better)


def by_rounds(target: float) -> Criterion:
    """By rounds to the target. A seed that did not get there counts as if it did at its next evaluation, which is the
    least that it may take: what is behind is behind by at least so much."""

    def values(line: Line) -> BySeed:
        return {seed: each.rounds + (0 if each.reached else _step(line)) for seed, each in line.reach(target).items()}

    return Criterion(values, higher=False, step=_step)


def by_bytes(target: float) -> Criterion:
    """By bytes to the target, likewise, of the lines that get there with any seed."""

    def values(line: Line) -> BySeed:
        found = line.reach(target)
        if not any(each.reached for each in found.values()):
            return {}
        return {seed: float(each.moved) for seed, each in found.items()}

    return Criterion(values, higher=False, step=lambda line: _step(line) * _moved(line))


def _step(line: Line) -> float:
    return float(max(run.config.evaluate_every for run in line.runs))


def _moved(line: Line) -> float:
    """Bytes of a round."""
    rounds = [run.points[-1] for run in line.ran]
    return sum(point.moved for point in rounds) / sum(point.round for point in rounds)
