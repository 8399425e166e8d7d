"""Measured against published, cell by cell: does the paper's number agree with ours, given how much seeds differ?

The paper prints one number for each cell, of one seed. Ours are one number for each seed. Rounds are compared by their
ratio (their logarithms), accuracies by their difference in points: ``RULE``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from statistics import mean, median, stdev
from typing import Literal, TypeAlias

from ...algorithms import display_name
from ...paper.known import Known, experiment, known
from ...specs import Spec
from ...study.cells import Number
from ..lines import describe
from ..runs import Run
from .stats import spread

Verdict: TypeAlias = Literal["agrees", "chance", "differs", "few seeds", "too short"]
WIDTHS = 2.0
ENOUGH = 3
"""Seeds for a deviation of a cell's own, and cells for a typical one."""
CLOSE_ROUNDS, CLOSE_POINTS = 1.1, 0.5
LATER = tuple(100 ** (i / 100) for i in range(101))
"""Factors by which what was not reached in N rounds may come later than N."""
RULE = f"""The rule. The paper prints one number per cell, from one seed; ours is the mean ± standard deviation over
seeds. The deviation of a cell is that of its seeds, if there are three. A few seeds can happen to be nearly
equal, so the median deviation of the cells with the same data set and target is used if it is larger (it
needs three cells with at least two seeds). For rounds it is at least half a round. The distance between our
mean and the published number is compared with {WIDTHS:g} × deviation × √(1 + 1/seeds), because both vary by chance.
Rounds are compared by their ratio, accuracies by their difference.

'>N' means not reached in N rounds: the number may be N or any larger one (up to {LATER[-1]:g} N is tried). A cell with
such a number, ours or the paper's, has a verdict only if it is the same for all of them (our seeds are taken to be
later by one factor), which count in the mean and in the deviation; otherwise it is too short. A seed that diverged has
no best accuracy: it is named, and not counted.

- **agrees**: within that, and within {100 * (CLOSE_ROUNDS - 1):.0f} % or one round (rounds), or {CLOSE_POINTS:g} points
  (accuracy); or reached by neither
- **chance**: within that, but not that close: seeds alone differ by as much
- **differs**: further apart than that
- **few seeds**: fewer than three seeds, which are no evidence, unless similar cells show that it differs
- **too short**: too few rounds were run to decide, here or in the paper (pale in the picture)

With three seeds the deviation itself is uncertain. Without the median, about one cell in five of those that agree
perfectly would be called different (Student's t with two degrees of freedom exceeds 2 with probability 0.18).
"""


@dataclass(frozen=True)
class Compared:
    """One published number and our seeds of the same cell."""

    data: str
    setting: str
    method: str
    target: float | None
    """The accuracy whose rounds are compared; None where the best accuracy is, in percent."""
    published: Number
    values: tuple[float, ...]
    """Of the seeds that reached the target, or all of them."""
    bounds: tuple[int, ...] = ()
    """Of the others: the rounds that were not enough."""
    typical: float | None = None
    """The typical deviation in similar cells: of the logarithm of rounds, or in points."""
    diverged: int = 0
    """Further seeds, which have no best accuracy: what they had before they diverged says nothing."""

    @property
    def seeds(self) -> int:
        return len(self.values) + len(self.bounds)

    @property
    def what(self) -> str:
        return "best accuracy, %" if self.target is None else f"rounds to {100 * self.target:g} %"

    @property
    def similar(self) -> tuple[object, ...]:
        """Cells with the same of this have deviations of about the same size."""
        return self.data, self.target

    @property
    def ours(self) -> str:
        """Our number as text: mean ± deviation, and how many seeds did not get there or diverged."""
        digits = 2 if self.target is None else 0 if len(self.values) == 1 else 1
        parts = [spread(self.values, digits)] if self.values else []
        if self.bounds:
            short = f">{min(self.bounds)}"
            parts.append(f"{len(self.bounds)} of {self.seeds} {short}" if self.values else short)
        if self.diverged:
            parts.append(f"{self.diverged} of {self.seeds + self.diverged} diverged")
        return "; ".join(parts)

    def deviation(self) -> float | None:
        """Over our own seeds, where all reached the target."""
        return stdev(self._scaled(self.values)) if len(self.values) > 1 and not self.bounds else None

    def verdict(self) -> Verdict:
        """What may be said of this cell, by ``RULE``."""
        if any(each < self.published.value for each in self.bounds):
            return "too short"
        if self.published.censored and not self.values:
            return "agrees" if self.seeds >= ENOUGH else "few seeds"
        found = (each._of_numbers() for each in self._possible())
        first = next(found)
        return first if all(each == first for each in found) else "too short"

    def _possible(self) -> Iterator[Compared]:
        """This cell with numbers in place of its bounds, as far as they may be known one day.

        Our seeds may all be later than their bounds by one factor, and the paper's by another.
        """
        ours = LATER if self.bounds else (1.0,)
        printed = LATER if self.published.censored else (1.0,)
        for later, more in product(ours, printed):
            values = (*self.values, *(later * each for each in self.bounds))
            yield replace(self, published=Number(more * self.published.value), values=values, bounds=())

    def _of_numbers(self) -> Verdict:
        """The verdict where every number is known."""
        own = self.deviation() if self.seeds >= ENOUGH else None
        known_deviations = [each for each in (own, self.typical) if each is not None]
        if not (known_deviations and self.values):
            return "few seeds"
        whole = 0.0 if self.target is None else 0.5 / mean(self.values)
        width = max(*known_deviations, whole) * math.sqrt(1 + 1 / self.seeds)
        distance = abs(self._scaled((self.published.value,))[0] - mean(self._scaled(self.values)))
        if distance > WIDTHS * width + 1e-12:
            return "differs"
        if self.seeds < ENOUGH:
            return "few seeds"
        return "agrees" if self._close() else "chance"

    def _scaled(self, values: Sequence[float]) -> list[float]:
        return list(values) if self.target is None else [math.log(each) for each in values]

    def _close(self) -> bool:
        centre, printed = mean(self.values), self.published.value
        if self.target is None:
            return abs(centre - printed) <= CLOSE_POINTS
        return abs(centre - printed) <= 1 or max(centre / printed, printed / centre) <= CLOSE_ROUNDS


def compare(runs: Sequence[Run]) -> list[Compared]:
    """Every published number for which there is at least one run, in the order of the runs."""
    cells: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        if run.points:
            cells.setdefault(experiment(run.config), []).append(run)
    found = [each for members in cells.values() for each in _cell(members, known(members[0].config))]
    return [replace(each, typical=_typical(each, found)) for each in found]


def _cell(runs: Sequence[Run], printed: Known) -> list[Compared]:
    config = runs[0].config
    half = "" if config.precision == "float32" else f", {config.precision}"
    names = (Spec.parse(config.data).name, describe(config) + half, display_name(Spec.parse(config.method).name))
    found = []
    for target, number in sorted(printed.rounds.items()):
        seeds = _one_of_each_seed(runs, partial(_decides, target=target))
        reached = [point.round for run in seeds if (point := run.reach(target)) is not None]
        short = [run.bound for run in seeds if run.reach(target) is None]
        found.append(Compared(*names, target, number, tuple(reached), tuple(short)))
    whole = [run for run in runs if run.config.stop_at is None and run.ended and run.config.rounds >= printed.budget]
    if printed.accuracy is not None and whole:
        seeds = _one_of_each_seed(whole, lambda run: (run.status == "finished", len(run.points)))
        values = [100 * each for run in seeds if run.status == "finished" and (each := run.best()) is not None]
        lost = sum(run.status == "diverged" for run in seeds)
        found.append(Compared(*names, None, printed.accuracy, tuple(values), diverged=lost))
    return found


def _one_of_each_seed(runs: Sequence[Run], by: Callable[[Run], tuple[int, ...]]) -> list[Run]:
    """A seed that several studies ran counts once: the run that decides most, the last of equals."""
    found = {run.repeat: run for run in sorted(runs, key=by)}
    return [found[repeat] for repeat in dict.fromkeys(run.repeat for run in runs)]


def _decides(run: Run, target: float) -> tuple[int, ...]:
    """Greater for a run that reached the target, most of all if it was to stop at one; else for a larger bound."""
    if run.reach(target) is None:
        return False, run.bound
    return True, run.config.stop_at is not None, len(run.points)


def _typical(one: Compared, cells: Sequence[Compared]) -> float | None:
    found = [each.deviation() for each in cells if each.similar == one.similar]
    several = [each for each in found if each is not None]
    return median(several) if len(several) >= ENOUGH else None
