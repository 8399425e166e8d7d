"""Which line is first, and of which others a difference to it is shown: never more than the seeds support."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
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
    missed: Callable[[Line], Collection[Repeat]] = lambda _: ()
    """The seeds whose values are bounds: nobody knows how much larger they are."""

    def compare(self, pairs: Iterable[tuple[Line, Line]]) -> list[tuple[Line, Line, Paired]]:
        """The one of each pair less the other, over the seeds that both have, corrected for how many pairs they are.

        Pairs that share fewer than two seeds are left out.
        """
        found = [(*pair, each) for pair in pairs if (each := self._difference(*pair)) is not None]
        corrected = correct([each for _, _, each in found])
        return [(one, other, each) for (one, other, _), each in zip(found, corrected, strict=True)]

    def _difference(self, one: Line, other: Line) -> Paired | None:
        """Shows nothing where the smaller side has bounds, since that side may be the larger one."""
        found = paired(self.values(one), self.values(other), max(self.step(one), self.step(other)))
        if found is None:
            return None
        smaller = [line for line, sign in ((one, 1), (other, -1)) if sign * found.difference <= 0]
        return found.undecided() if any(map(self.missed, smaller)) else found


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
    """The lines whose seeds were all run to their end, by the mean of what they are judged by.

    A line with a bound among its values may be behind the first, but not be the first; None where none can be. The
    first is chosen by the values that then show it ahead, so p is corrected for all pairs of lines.
    """
    known = [line for line in lines if line.complete and judge.values(line)]
    repeated = [line for line in known if len(judge.values(line)) > 1]
    whole = [line for line in repeated or known if not judge.missed(line)]
    if not whole:
        return None
    first = (max if judge.higher else min)(whole, key=lambda line: mean(judge.values(line).values()))
    others = [line for line in known if line is not first]
    found = [(line, each) for one, line, each in judge.compare(combinations([first, *others], 2)) if one is first]
    behind = tuple(pair for pair in found if pair[1].significant and (pair[1].difference > 0) == judge.higher)
    level = tuple(pair[0] for pair in found if all(pair is not each for each in behind))
    apart = tuple(line for line in others if all(line is not each for each, _ in found))
    seeds = min((each.seeds for _, each in found), default=1 if apart else len(judge.values(first)))
    return Ranking(first, level, behind, apart, seeds)


def by_best(measure: Measure) -> Criterion:
    """By best score."""
    return Criterion(Line.best, measure.higher_is_better)


def by_rounds(target: float) -> Criterion:
    """By rounds to the target. The bound of a seed that did not get there is its next evaluation, which is the least
    that it may take: what is behind is behind by at least so much."""

    def values(line: Line) -> BySeed:
        return {seed: each.rounds + (0 if each.reached else _step(line)) for seed, each in line.reach(target).items()}

    return Criterion(values, higher=False, step=_step, missed=_missed(target))


def by_bytes(target: float) -> Criterion:
    """By bytes to the target. The bound of a seed that did not get there is what it moved in all."""

    def values(line: Line) -> BySeed:
        return {seed: float(each.moved) for seed, each in line.reach(target).items()}

    return Criterion(values, higher=False, step=lambda line: _step(line) * _moved(line), missed=_missed(target))


def _missed(target: float) -> Callable[[Line], Collection[Repeat]]:
    return lambda line: [seed for seed, each in line.reach(target).items() if not each.reached]


def _step(line: Line) -> float:
    return float(max(run.config.evaluate_every for run in line.runs))


def _moved(line: Line) -> float:
    """Bytes of a round."""
    rounds = [run.points[-1] for run in line.ran]
    return sum(point.moved for point in rounds) / sum(point.round for point in rounds)
