"""What methods are compared in, with the words for it: best score, rounds to the target, bytes to the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .lines import Line, Setting
from .numbers.ranking import Ranking, rank
from .numbers.units import amount
from .tables import columns
from .tables.columns import TableColumn


@dataclass(frozen=True)
class Quantity:
    """One thing that lines are compared in."""

    question: str
    noun: str
    ahead: tuple[str, str]
    """What the first does, in the singular and in the plural."""
    column: TableColumn
    unit: str
    ranking: Ranking
    size: Callable[[float], str]
    """A difference, without its sign."""
    relation: str
    """How the first stands to one behind it: 'fewer than'."""
    short: Callable[[Line], str]
    """How many seeds of a line did not get there, in words; nothing where all did."""

    def show(self, line: Line) -> str:
        return f"{self.column.make(line).text} {self.unit}".strip()

    def against(self, base: Line | None) -> tuple[str, str]:
        """The first beside FedAvg, or the nearest that is behind it; and the interval, test and seeds of that."""
        behind = self.ranking.behind
        nearest = min(behind, key=lambda pair: abs(pair[1].difference))
        line, found = next((pair for pair in behind if pair[0] is base), nearest)
        note = self.short(line)
        words = f"{'at least ' if note else ''}{self.size(abs(found.difference))} {self.relation} {line.label}{note}"
        low, high = sorted((abs(found.low), abs(found.high)))
        ends = f"{self.size(low).removesuffix(' points')} to {self.size(high)}"
        return words, f"95 % interval {ends}; {found.test}"

    def tied(self) -> list[Line]:
        """The lines with the very number of the first."""
        first = self.show(self.ranking.first)
        others = (*self.ranking.level, *self.ranking.apart)
        return [self.ranking.first, *(line for line in others if self.show(line) == first)]


def score(setting: Setting, lines: Sequence[Line]) -> Quantity | None:
    """The best score."""
    measure, column = setting.measure, columns.best(setting)
    most = f"the {'highest' if measure.higher_is_better else 'lowest'} best {measure.name}"
    return _quantity(
        lines,
        column,
        question=f"Best {measure.name}",
        noun=f"best {measure.name}",
        ahead=(f"has {most}", f"have {most}"),
        unit=measure.unit,
        size=lambda value: f"{measure.shown(value):.{measure.digits}f}" + (" points" if measure.percent else ""),
        relation="above" if measure.higher_is_better else "below",
        short=lambda _: "",
    )


def rounds(setting: Setting, lines: Sequence[Line]) -> Quantity | None:
    """Rounds to the target."""
    goal = setting.goal
    return _quantity(
        lines,
        columns.rounds_to(setting.target),
        question=f"Rounds to {goal}",
        noun=f"rounds to {goal}",
        ahead=(f"reaches {goal} in the fewest rounds", f"reach {goal} in the fewest rounds"),
        unit="",
        size=lambda value: f"{value:.3g}",
        relation="fewer than",
        short=lambda line: _short(setting, line),
    )


def moved(setting: Setting, lines: Sequence[Line]) -> Quantity | None:
    """Bytes to the target."""
    goal = setting.goal
    return _quantity(
        lines,
        columns.moved_to(setting.target),
        question=f"Moved to {goal}",
        noun=f"bytes to {goal}",
        ahead=(f"reaches {goal} with the fewest bytes", f"reach {goal} with the fewest bytes"),
        unit="",
        size=amount,
        relation="less than",
        short=lambda line: _short(setting, line),
    )


def _quantity(lines: Sequence[Line], column: TableColumn, **words: object) -> Quantity | None:
    assert column.judge is not None
    ranking = rank(lines, column.judge)
    return None if ranking is None else Quantity(column=column, ranking=ranking, **words)  # type: ignore[arg-type]


def _short(setting: Setting, line: Line) -> str:
    reach = line.reach(setting.target).values()
    got = sum(each.reached for each in reach)
    return "" if got == len(reach) else f", which gets there with {got or 'none'} of {len(reach)} seeds"
