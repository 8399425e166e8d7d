"""The columns of tables: what each shows for a line, and when a number of it is worth a bold face."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean, stdev
from typing import Literal

from ...paper.known import Known, known
from ...study.cells import Number
from ..lines import Line, Reach, Setting
from ..numbers.ranking import Criterion, by_best, by_bytes, by_rounds, rank
from ..numbers.stats import spread
from ..numbers.units import amount, clock


@dataclass(frozen=True)
class Entry:
    """One place of a table: its text, and the numbers behind it for whoever computes with them."""

    text: str
    numbers: Mapping[str, float | str] = field(default_factory=dict)
    """By name: mean, sd and n over seeds; bound, as '>34', where seeds did not get there; low, high, p of a test."""
    bold: bool = False

    @property
    def mean(self) -> float | None:
        found = self.numbers.get("mean")
        return None if found is None else float(found)


@dataclass(frozen=True)
class TableColumn:
    """What a column shows for a line; ``judge`` says what lines are compared by in it."""

    key: str
    heading: str
    make: Callable[[Line], Entry]
    define: str = ""
    """The definition that its heading leads to."""
    judge: Criterion | None = None
    measured: bool = True

    def entries(self, lines: Sequence[Line]) -> list[Entry]:
        """One for each line; the first is bold where it is shown to be ahead of all others, and all have ended."""
        found = [self.make(line) if line.ran or not self.measured else Entry("not run") for line in lines]
        ranking = rank(lines, self.judge) if self.judge is not None and _over(lines) else None
        if ranking is None or not ranking.claim:
            return found
        return [replace(entry, bold=line is ranking.first) for entry, line in zip(found, lines, strict=True)]


def best(setting: Setting) -> TableColumn:
    measure = setting.measure
    return TableColumn(
        "best",
        f"best, {measure.unit}" if measure.percent else f"best {measure.name}",
        lambda line: _score(line, list(line.best().values())),
        "best",
        by_best(measure),
    )


def last(setting: Setting) -> TableColumn:
    heading = f"last 10, {setting.measure.unit}" if setting.measure.percent else "last 10"
    return TableColumn("last10", heading, lambda line: _score(line, list(line.last().values())), "last")


def of_clients(setting: Setting, part: Literal["mean", "worst"]) -> TableColumn:
    """The score over single clients; nothing where they were not scored."""

    def make(line: Line) -> Entry:
        found = [each for run in line.ended if (each := run.of_clients(part)) is not None]
        return _score(line, found) if found else Entry("")

    unit = f", {setting.measure.unit}" if setting.measure.percent else ""
    return TableColumn(
        f"clients_{part}", {"mean": "clients' mean", "worst": "worst tenth"}[part] + unit, make, "clients"
    )


def paper_best() -> TableColumn:
    return TableColumn("paper_best", "best, paper, %", lambda line: _printed(of_paper(line).accuracy), "", None, False)


def paper_rounds(target: float) -> TableColumn:
    return TableColumn(
        "paper_rounds", "rounds, paper", lambda line: _printed(of_paper(line).rounds.get(target)), "", None, False
    )


def seeds() -> TableColumn:
    return TableColumn("seeds", "seeds", _seeds, "seeds")


def rounds_run() -> TableColumn:
    def make(line: Line) -> Entry:
        done = sorted({run.done for run in line.ran})
        text = f"{done[0]}–{done[-1]}" if len(done) > 1 else f"{done[0]}"
        return Entry(text, {"mean": mean(run.done for run in line.ran)})

    return TableColumn("rounds", "rounds", make)


def moved_total() -> TableColumn:
    return TableColumn(
        "bytes", "moved", lambda line: _over_seeds([r.points[-1].moved for r in line.drawn], amount), "moved"
    )


def epsilon() -> TableColumn:
    """What the runs spent of a privacy budget; nothing where there was no noise."""

    def make(line: Line) -> Entry:
        found = [spent for run in line.drawn if (spent := run.epsilon) is not None]
        return _over_seeds(found, lambda *values: f"{mean(values):.2f}") if found else Entry("")

    return TableColumn("epsilon", "ε", make, "epsilon")


def time_total() -> TableColumn:
    def make(line: Line) -> Entry:
        found = [s for run in line.drawn if (s := run.points[-1].seconds) is not None]
        return _over_seeds(found, clock) if found else Entry("–")

    return TableColumn("seconds", "time", make, "time")


def rounds_to(target: float, heading: str = "rounds") -> TableColumn:
    def make(line: Line) -> Entry:
        found = line.reach(target)
        values = [each.rounds for each in found.values() if each.reached]
        if not found:
            return Entry(f"not yet, at round {min(run.done for run in line.ran)}")
        text = rounds_text(list(found.values()), len(line.ran) - len(found))
        least = min((each.rounds for each in found.values() if not each.reached), default=None)
        return _numbers(text, values, "" if least is None else f">{least}")

    return TableColumn("rounds", heading, make, "rounds", by_rounds(target))


def moved_to(target: float, heading: str = "moved") -> TableColumn:
    def make(line: Line) -> Entry:
        return _cost(line, target, [each.moved for each in line.reach(target).values() if each.reached], amount)

    return TableColumn("bytes", heading, make, "moved", by_bytes(target))


def time_to(target: float) -> TableColumn:
    def make(line: Line) -> Entry:
        found = [each for each in line.reach(target).values() if each.reached]
        seconds = [each.seconds for each in found if each.seconds is not None]
        return Entry("–") if len(seconds) < len(found) else _cost(line, target, seconds, clock)

    return TableColumn("seconds", "time", make, "time")


def rounds_text(found: Sequence[Reach], pending: int = 0) -> str:
    """Rounds to a target over seeds, and which seeds did not get there or have not yet."""
    reached = [each.rounds for each in found if each.reached]
    short = [each.rounds for each in found if not each.reached]
    total = len(found) + pending
    if not reached and not pending:
        return f">{min(short)}"
    notes = [f"{len(reached)} of {total} seeds"] if short or pending else []
    notes += [f"{'the others ' if not pending else f'{len(short)} '}>{min(short)}"] if short else []
    notes += [f"{pending} not yet"] if pending else []
    mean_of = spread(reached, 0 if len(reached) == 1 else 1) if reached else "–"
    return mean_of + (f" ({', '.join(notes)})" if notes else "")


def of_paper(line: Line) -> Known:
    """The paper's numbers for a line."""
    return known(line.runs[0].config)


def _over(lines: Sequence[Line]) -> bool:
    """Whether no line is part-way: with a run under way, or with seeds of which only some were run."""
    return all(run.ended or (run.status == "not run" and not line.ran) for line in lines for run in line.runs)


def _score(line: Line, values: Sequence[float]) -> Entry:
    measure = line.measure
    lost = sum(run.status == "diverged" for run in line.runs)
    if values:
        shown = [measure.shown(each) for each in values]
        return _numbers(spread(shown, measure.digits) + (f" ({lost} diverged)" if lost else ""), shown)
    so_far = [measure.shown(each) for run in line.ran if (each := run.best()) is not None]
    if so_far:
        return Entry(f"so far {spread(so_far, measure.digits)}")
    return Entry("diverged" if lost else "–")


def _cost(line: Line, target: float, values: Sequence[float], show: Callable[..., str]) -> Entry:
    known_seeds, all_seeds = len(line.reach(target)), len(line.ran)
    if not values:
        return Entry("not reached" if known_seeds == all_seeds else "not yet")
    note = "" if len(values) == all_seeds else f" ({len(values)} of {all_seeds} seeds)"
    return _numbers(show(*values) + note, values)


def _over_seeds(values: Sequence[float], show: Callable[..., str]) -> Entry:
    return _numbers(show(*values), values)


def _numbers(text: str, values: Sequence[float], limit: str = "") -> Entry:
    found: dict[str, float | str] = {"mean": mean(values)} if values else {}
    found |= {"sd": stdev(values)} if len(values) > 1 else {}
    return Entry(text, {**found, "n": len(values)} | ({"bound": limit} if limit else {}))


def _printed(number: Number | None) -> Entry:
    if number is None:
        return Entry("")
    return Entry(str(number), {"bound": str(number)} if number.censored else {"mean": number.value})


def _seeds(line: Line) -> Entry:
    done, lost = sum(run.status == "finished" for run in line.runs), sum(r.status == "diverged" for r in line.runs)
    going = sum(run.status == "unfinished" for run in line.runs)
    notes = [f"{count} {word}" for count, word in ((lost, "diverged"), (going, "unfinished")) if count]
    return Entry(", ".join([str(done), *notes]), {"mean": done})
