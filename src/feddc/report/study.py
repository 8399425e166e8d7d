"""A study as tables: what was measured, beside what was published."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..engine import Record
from ..engine.records import best_accuracy, bytes_to, rounds_to
from ..study.cells import Cell, Number
from .tables import speedup

NOT_RUN = "not run"
Runs = Mapping[Cell, Sequence[Record]]


@dataclass(frozen=True)
class Grid:
    """A table of text: a title, the columns' names, and a row of cells for each name."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def grids(cells: Sequence[Cell], runs: Runs) -> list[Grid]:
    """The tables of a study: for each group rounds, speed-up and bytes to each target, or the best accuracy."""
    tables: list[Grid] = []
    for group in dict.fromkeys(cell.group for cell in cells):
        members = [cell for cell in cells if cell.group == group]
        for i, target in enumerate(members[0].targets):
            goal = f"{group}, {100 * target:g} %"
            tables.append(_pivot(f"rounds to target, measured | published: {goal}", members, _rounds(runs, target, i)))
            tables.append(_pivot(f"speed-up over FedAvg: {goal}", members, _speedups(members, runs, target)))
            tables.append(_pivot(f"MB moved to target: {goal}", members, _megabytes(runs, target)))
        if not members[0].targets:
            beside = ", measured | published" if any(any(cell.published) for cell in members) else ""
            tables.append(_pivot(f"best accuracy (%){beside}: {group}", members, _accuracy(runs)))
    return tables


def spread(values: Sequence[float], digits: int) -> str:
    """Mean ± standard deviation, or the value itself where there is only one."""
    mean = f"{statistics.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


def rounds_text(found: Sequence[int | None], budget: int) -> str:
    """Rounds to a target over seeds; None is a seed that did not get there within ``budget`` rounds."""
    reached = [each for each in found if each is not None]
    if not reached:
        return f">{budget}"
    note = "" if len(reached) == len(found) else f" ({len(reached)} of {len(found)} seeds, the others >{budget})"
    return spread(reached, 0 if len(reached) == 1 else 1) + note


def markdown(grid: Grid) -> str:
    """The table as Markdown."""
    lines = [f"**{grid.title}**", "", f"| | {' | '.join(c.replace('|', '/') for c in grid.columns)} |"]
    lines.append("|---|" + "---|" * len(grid.columns))
    lines += [f"| {name} | {' | '.join(each.replace('|', '/') for each in row)} |" for name, row in grid.rows]
    return "\n".join(lines) + "\n"


Show = Callable[[Sequence[Cell]], str]


def _pivot(title: str, cells: Sequence[Cell], show: Show) -> Grid:
    columns = tuple(dict.fromkeys(cell.column for cell in cells))
    rows = []
    for row in dict.fromkeys(cell.row for cell in cells):
        places = [[cell for cell in cells if (cell.row, cell.column) == (row, column)] for column in columns]
        rows.append((row, tuple(show(place) if place else "" for place in places)))
    return Grid(title, columns, tuple(rows))


def _beside(measured: str, published: Number | None) -> str:
    return measured if published is None else f"{measured} | {published}"


def _rounds(runs: Runs, target: float, index: int) -> Show:
    def show(place: Sequence[Cell]) -> str:
        done = [(cell, runs[cell]) for cell in place if cell in runs]
        published = place[0].published[index]
        if not done:
            return _beside(NOT_RUN, published)
        found = [rounds_to(records, target) for _, records in done]
        return _beside(rounds_text(found, max(cell.config.rounds for cell, _ in done)), published)

    return show


def _speedups(members: Sequence[Cell], runs: Runs, target: float) -> Show:
    def show(place: Sequence[Cell]) -> str:
        texts = []
        for cell in (cell for cell in place if cell in runs):
            base = next((c for c in members if _twin(c, cell) and c.row == "fedavg" and c in runs), None)
            if base is None:
                return NOT_RUN if cell.row == "fedavg" else "FedAvg not run"
            mine, theirs = rounds_to(runs[cell], target), rounds_to(runs[base], target)
            texts.append(speedup(theirs, mine, cell.config.rounds))
        return ", ".join(texts) or NOT_RUN

    return show


def _twin(one: Cell, other: Cell) -> bool:
    return (one.column, one.config.seed) == (other.column, other.config.seed)


def _megabytes(runs: Runs, target: float) -> Show:
    def show(place: Sequence[Cell]) -> str:
        done = [runs[cell] for cell in place if cell in runs]
        moved = [bytes_to(records, target) for records in done]
        reached = [each / 1e6 for each in moved if each is not None]
        if not done:
            return NOT_RUN
        return spread(reached, 0) if len(reached) == len(moved) else "not reached"

    return show


def _accuracy(runs: Runs) -> Show:
    def show(place: Sequence[Cell]) -> str:
        best = [best_accuracy(runs[cell]) for cell in place if cell in runs]
        known = [100 * each for each in best if each is not None]
        return _beside(spread(known, 2) if known else NOT_RUN, place[0].published[0] if place[0].published else None)

    return show
