"""The tables of a report, as the paper prints them, with its numbers beside ours where a run is one of its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from ..paper.known import Known, known
from ..study.cells import Number
from .settings import Line, Setting
from .study import rounds_text, spread
from .tables import speedup
from .units import amount, clock, percent

TERMS = {("false", "false"): "loss", ("true", "false"): "loss + penalty", ("false", "true"): "loss + correction"}


@dataclass(frozen=True)
class Table:
    """A table of text. ``best`` marks the cells worth a bold face, as (row, column)."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()
    note: str = ""


def goals(setting: Setting) -> tuple[float, ...]:
    """The targets of a setting: its own, and those that the paper has for it."""
    printed = {goal for line in setting.lines for goal in _known(line).rounds}
    return tuple(sorted(printed | {run.config.target for run in setting.runs}))


def rounds_table(setting: Setting, target: float) -> Table:
    """Rounds, speed-up over FedAvg, bytes and seconds to one target."""
    papers = [_known(line).rounds.get(target) for line in setting.lines]
    base = None if setting.baseline is None else setting.baseline.mean_cost_to(target)
    rows, costs = [], []
    for line, paper in zip(setting.lines, papers, strict=True):
        cost = line.mean_cost_to(target)
        costs.append(cost)
        ratio = speedup(base and base[0], cost and cost[0], line.budget) if setting.baseline else "–"
        rounds = rounds_text(line.rounds_to(target), line.budget)
        spent = [amount(cost[1]), clock(cost[2])] if cost else ["not reached", "not reached"]
        rows.append([line.label, rounds, _text(paper), ratio, *spent])
    columns = ["method", "rounds", "rounds, paper", "speed-up", "moved", "time"]
    best = {(i, j) for j, which in ((1, 0), (4, 1), (5, 2)) for i in _least([c and c[which] for c in costs])}
    table = Table(f"Rounds to {percent(target, 2)}", tuple(columns), tuple(map(tuple, rows)), frozenset(best))
    return table if any(papers) else _without(table, 2)


def accuracy_table(setting: Setting) -> Table:
    """Best and last accuracy, and what a run cost in all."""
    rows, best = [], []
    for line in setting.lines:
        best.append(mean(line.best()) if line.best() else None)
        moved = mean(sum(r.bytes_up + r.bytes_down for r in run.records) for run in line.runs)
        seconds = mean(sum(r.seconds for r in run.records) for run in line.runs)
        done = "–".join(f"{n}" for n in sorted({len(run.records) for run in line.runs})[:: max(1, len(line.runs) - 1)])
        values = [_spread(line.best()), _text(_known(line).accuracy), _spread(line.last())]
        rows.append((line.label, *values, str(len(line.runs)), done, amount(moved), clock(seconds)))
    columns = ("method", "best, %", "best, paper, %", "last 10, %", "seeds", "rounds", "moved", "time")
    shorter = [line for line in setting.lines if 0 < line.budget < _known(line).budget]
    note = f"The paper ran {_known(shorter[0]).budget} rounds, these runs had {shorter[0].budget}." if shorter else ""
    top = _least([None if value is None else -value for value in best])
    table = Table("Best accuracy", columns, tuple(rows), frozenset((i, 1) for i in top), note)
    return table if any(row[2] for row in rows) else _without(table, 2)


def ablation_table(setting: Setting) -> Table | None:
    """The terms of FedDC's objective, switched off one by one; None unless two variants were run."""
    variants = [line for line in setting.lines if line.name == "feddc" and "server" not in line.options]
    terms = [_terms(line) for line in variants]
    if len(set(terms)) < 2:
        return None
    plain = [] if setting.baseline is None else [setting.baseline]
    lines = [*plain, *sorted(variants, key=lambda line: len(_terms(line)))]
    rows = [
        (
            line.label,
            "FedAvg" if line in plain else _terms(line),
            _spread(line.best()),
            _text(_known(line).accuracy),
            rounds_text(line.rounds_to(setting.target), line.budget),
        )
        for line in lines
    ]
    columns = ("run", "objective", "best, %", "best, paper, %", f"rounds to {percent(setting.target, 2)}")
    top = _least([-mean(line.best()) if line.best() else None for line in lines])
    table = Table("Ablation: the terms of FedDC", columns, tuple(rows), frozenset((i, 2) for i in top))
    return table if any(row[3] for row in rows) else _without(table, 3)


def overview(settings: Sequence[Setting]) -> list[Table]:
    """Every setting beside the others: best accuracy, and rounds to the target."""
    labels = tuple(dict.fromkeys(line.label for setting in settings for line in setting.lines))
    columns = ("method", *(setting.title for setting in settings))
    accuracy, rounds = [], []
    for label in labels:
        found = [next((x for x in setting.lines if x.label == label), None) for setting in settings]
        pairs = list(zip(found, settings, strict=True))
        accuracy.append((label, *(_beside(_spread(x.best()), _known(x).accuracy) if x else "" for x in found)))
        rounds.append((label, *(_rounds_cell(x, s) if x else "" for x, s in pairs)))
    note = "measured | paper" if any("|" in cell for row in [*accuracy, *rounds] for cell in row[1:]) else ""
    goal = ", ".join(sorted({percent(setting.target, 2) for setting in settings}))
    return [
        Table("Best accuracy, %, in every setting", columns, tuple(accuracy), note=note),
        Table(f"Rounds to the target ({goal}) in every setting", columns, tuple(rounds), note=note),
    ]


def _rounds_cell(line: Line, setting: Setting) -> str:
    measured = rounds_text(line.rounds_to(setting.target), line.budget)
    return _beside(measured, _known(line).rounds.get(setting.target))


def _beside(measured: str, paper: Number | None) -> str:
    return measured if paper is None else f"{measured} | {paper}"


def _terms(line: Line) -> str:
    options = line.options
    switches = (options.get("penalty", "true").lower(), options.get("correction", "true").lower())
    return TERMS.get(switches, "loss + penalty + correction")


def _known(line: Line) -> Known:
    return known(line.runs[0].config)


def _spread(values: Sequence[float]) -> str:
    return spread([100 * each for each in values], 2) if values else "–"


def _text(number: Number | None) -> str:
    return "" if number is None else str(number)


def _least(values: Sequence[float | None]) -> list[int]:
    """The places of the smallest number, where there are two or more to compare."""
    numbers = [each for each in values if each is not None]
    return [i for i, each in enumerate(values) if each == min(numbers)] if len(values) > 1 and numbers else []


def _without(table: Table, column: int) -> Table:
    """The table without a column that would be empty."""
    keep = [i for i in range(len(table.columns)) if i != column]
    rows = tuple(tuple(row[i] for i in keep) for row in table.rows)
    best = frozenset((i, j - (j > column)) for i, j in table.best)
    return Table(table.title, tuple(table.columns[i] for i in keep), rows, best, table.note)
