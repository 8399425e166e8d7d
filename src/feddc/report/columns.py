"""The columns of tables: what each shows for a line, and when a number of it is worth a bold face."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev

from ..paper.known import Known, known
from ..study.cells import Number
from .lines import Line, Reach, Setting
from .ranking import Ranking, best_ranking, moved_ranking, rounds_ranking
from .stats import spread
from .units import amount, bound, clock


@dataclass(frozen=True)
class Entry:
    """One place of a table: its text, and the numbers behind it for whoever computes with them."""

    text: str
    mean: float | None = None
    sd: float | None = None
    n: int | None = None
    bound: str = ""
    """'>34' where (some) seeds did not get there, or '>2.5' for a ratio that is known only from one side."""
    bold: bool = False


@dataclass(frozen=True)
class Column:
    """What a column shows for a line; ``ranking`` says which line is ahead in it."""

    key: str
    heading: str
    make: Callable[[Line], Entry]
    define: str = ""
    """The definition that its heading leads to."""
    ranking: Callable[[Sequence[Line]], Ranking | None] | None = None
    measured: bool = True

    def entries(self, lines: Sequence[Line]) -> list[Entry]:
        """One for each line; the first is bold where it is shown to be ahead of all others, and all have ended."""
        found = [self.make(line) if line.ran or not self.measured else Entry("not run") for line in lines]
        ranking = self.ranking(lines) if self.ranking is not None and _over(lines) else None
        if ranking is None or not ranking.claim:
            return found
        return [replace(entry, bold=line is ranking.first) for entry, line in zip(found, lines, strict=True)]


def best(setting: Setting) -> Column:
    measure = setting.measure
    return Column(
        "best",
        f"best, {measure.unit}" if measure.share else f"best {measure.name}",
        lambda line: _score(line, list(line.best().values())),
        "best",
        best_ranking,
    )


def last(setting: Setting) -> Column:
    heading = f"last 10, {setting.measure.unit}" if setting.measure.share else "last 10"
    return Column("last10", heading, lambda line: _score(line, list(line.last().values())), "last")


def paper_best() -> Column:
    return Column("paper_best", "best, paper, %", lambda line: _printed(of_paper(line).accuracy), "", None, False)


def paper_rounds(target: float) -> Column:
    return Column(
        "paper_rounds", "rounds, paper", lambda line: _printed(of_paper(line).rounds.get(target)), "", None, False
    )


def seeds() -> Column:
    return Column("seeds", "seeds", _seeds, "seeds")


def rounds_run() -> Column:
    def make(line: Line) -> Entry:
        done = sorted({run.points[-1].round for run in line.ran})
        text = f"{done[0]}–{done[-1]}" if len(done) > 1 else f"{done[0]}"
        return Entry(text, mean([run.points[-1].round for run in line.ran]))

    return Column("rounds", "rounds", make)


def moved_total() -> Column:
    return Column("bytes", "moved", lambda line: _over_seeds([r.points[-1].moved for r in line.drawn], amount), "moved")


def time_total() -> Column:
    def make(line: Line) -> Entry:
        found = [s for run in line.drawn if (s := run.points[-1].seconds) is not None]
        return _over_seeds(found, clock) if found else Entry("–")

    return Column("seconds", "time", make, "time")


def rounds_to(target: float, heading: str = "rounds") -> Column:
    def make(line: Line) -> Entry:
        found = line.reach(target)
        values = [each.rounds for each in found.values() if each.reached]
        if not found:
            return Entry("not yet")
        text = rounds_text(list(found.values()), len(line.ran) - len(found))
        least = min((each.rounds for each in found.values() if not each.reached), default=None)
        return _numbers(text, values, "" if least is None else f">{least}")

    return Column("rounds", heading, make, "rounds", lambda lines: rounds_ranking(lines, target))


def moved_to(target: float, heading: str = "moved") -> Column:
    def make(line: Line) -> Entry:
        return _cost(line, target, [each.moved for each in line.reach(target).values() if each.reached], amount)

    return Column("bytes", heading, make, "moved", lambda lines: moved_ranking(lines, target))


def time_to(target: float) -> Column:
    def make(line: Line) -> Entry:
        found = [each for each in line.reach(target).values() if each.reached]
        seconds = [each.seconds for each in found if each.seconds is not None]
        return Entry("–") if len(seconds) < len(found) else _cost(line, target, seconds, clock)

    return Column("seconds", "time", make, "time")


def speedup(setting: Setting, target: float) -> Column:
    """FedAvg's mean rounds over the method's; a bound where one of them did not get there with every seed."""

    def make(line: Line) -> Entry:
        base = setting.baseline(line)
        if base is None or not base.ran:
            return Entry("–")
        if base is line:
            return Entry("1×", 1.0)
        mine, theirs = line.reach(target), base.reach(target)
        if len(mine) < len(line.ran) or len(theirs) < len(base.ran):
            return Entry("not yet")
        return ratio([(theirs[seed], mine[seed]) for seed in mine if seed in theirs])

    return Column("speedup", "speed-up", make, "speedup")


def ratio(pairs: Sequence[tuple[Reach, Reach]]) -> Entry:
    """The first's mean rounds over the second's, and how much that varies from seed to seed."""
    if not pairs:
        return Entry("–")
    value = mean(one.rounds for one, _ in pairs) / mean(two.rounds for _, two in pairs)
    whole = all(one.reached for one, _ in pairs), all(two.reached for _, two in pairs)
    if whole == (True, True):
        each = [one.rounds / two.rounds for one, two in pairs]
        sd = stdev(each) if len(each) > 1 else None
        return Entry(f"{value:.2f}×" + ("" if sd is None else f" ± {sd:.2f}"), value, sd, len(pairs))
    if whole == (False, True):
        return Entry(f">{bound(value, above=True)}×", n=len(pairs), bound=f">{bound(value, above=True)}")
    if whole == (True, False):
        return Entry(f"<{bound(value, above=False)}×", n=len(pairs), bound=f"<{bound(value, above=False)}")
    return Entry("–")


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
    return not any(run.status == "unfinished" for line in lines for run in line.runs)


def _score(line: Line, values: Sequence[float]) -> Entry:
    measure = line.measure
    if values:
        shown = [measure.shown(each) for each in values]
        return _numbers(spread(shown, measure.digits), shown)
    so_far = [measure.shown(each) for run in line.ran if (each := run.best()) is not None]
    return Entry(f"so far {spread(so_far, measure.digits)}") if so_far else Entry("–")


def _cost(line: Line, target: float, values: Sequence[float], show: Callable[..., str]) -> Entry:
    known_seeds, all_seeds = len(line.reach(target)), len(line.ran)
    if not values:
        return Entry("not reached" if known_seeds == all_seeds else "not yet")
    note = "" if len(values) == all_seeds else f" ({len(values)} of {all_seeds} seeds)"
    return _numbers(show(*values) + note, values)


def _over_seeds(values: Sequence[float], show: Callable[..., str]) -> Entry:
    return _numbers(show(*values), values)


def _numbers(text: str, values: Sequence[float], limit: str = "") -> Entry:
    if not values:
        return Entry(text, n=0, bound=limit)
    return Entry(text, mean(values), stdev(values) if len(values) > 1 else None, len(values), limit)


def _printed(number: Number | None) -> Entry:
    if number is None:
        return Entry("")
    return Entry(str(number), bound=str(number)) if number.censored else Entry(str(number), number.value)


def _seeds(line: Line) -> Entry:
    done, lost = sum(run.status == "finished" for run in line.runs), sum(r.status == "diverged" for r in line.runs)
    going = sum(run.status == "unfinished" for run in line.runs)
    notes = [f"{count} {word}" for count, word in ((lost, "diverged"), (going, "unfinished")) if count]
    return Entry(", ".join([str(done), *notes]), n=done)
