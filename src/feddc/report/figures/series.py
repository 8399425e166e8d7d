"""What the figures of a report draw: means and bands over seeds, drift, the split, sensitivity to α."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...specs import is_number
from ..lines import Line, Setting
from .styles import COLOURS

Numbers = dict[str, Any]
HEAT_CELLS = 400_000
"""A report's heat maps have at most about so many cells in all: beyond, rounds are averaged in columns."""


def band(columns: Iterable[Iterable[float]], digits: int = 5) -> Numbers:
    """Mean and deviation over seeds, point by point; without a deviation where there is one seed."""
    points = [list(each) for each in columns]
    found: Numbers = {"mean": [_short(mean(each), digits) for each in points]}
    several = any(len(each) > 1 for each in points)
    return found | (
        {"sd": [_short(stdev(each), digits) if len(each) > 1 else None for each in points]} if several else {}
    )


def curves(line: Line) -> Numbers:
    """Score and loss against rounds, bytes and seconds, as far as all seeds go.

    Seeds that are over are drawn; those under way only as long as none is.
    """
    seeds = [{point.round: point for point in run.points if point.score is not None} for run in line.drawn]
    rounds = sorted(set.intersection(*(set(each) for each in seeds))) if seeds else []
    rows = [[seed[r] for seed in seeds] for r in rounds]
    shown = line.measure.shown
    found: Numbers = {
        "round": rounds,
        "megabytes": band([[point.moved / 1e6 for point in row] for row in rows])["mean"],
        "score": band([[shown(point.score or 0.0) for point in row] for row in rows]),
    }
    for key in ("loss", "seconds"):
        columns = [[each for point in row if (each := getattr(point, key)) is not None] for row in rows]
        if columns and all(len(column) == len(seeds) for column in columns):
            found[key] = band(columns) if key == "loss" else band(columns)["mean"]
    return found


def drift_curves(line: Line) -> Numbers | None:
    """Over rounds: the cohort's mean gap and update, and the cosine between updates; None without diagnostics.

    The cosine of a small cohort jumps from round to round, so each seed's is a running mean of five rounds.
    """
    seeds = [{r.round: r.drift for r in run.records if r.drift is not None} for run in line.drawn]
    rounds = sorted(set.intersection(*(set(each) for each in seeds))) if seeds else []
    if not rounds:
        return None
    found: Numbers = {"round": rounds}
    for key in ("gap", "update"):
        found[key] = band([mean(getattr(seed[r], key)) for seed in seeds] for r in rounds)
    paired = [r for r in rounds if all(seed[r].cosine is not None for seed in seeds)]
    smoothed = [smooth([seed[r].cosine or 0.0 for r in paired]) for seed in seeds]
    return found | {"cosine_round": paired, "cosine": band(zip(*smoothed, strict=True))}


def smooth(values: Sequence[float], reach: int = 2) -> list[float]:
    """A running mean over ``reach`` values to either side."""
    windows = (values[max(0, i - reach) : i + reach + 1] for i in range(len(values)))
    return [sum(window) / len(window) for window in windows]


def heat(line: Line, clients: int, columns: int) -> Numbers | None:
    """Clients × rounds of the line's first seed: the drift that each holds, and its updates. None without diagnostics.

    Between two rounds that a client takes part in its drift does not change, so that the later one tells of both.
    """
    records = [record for run in line.drawn[:1] for record in run.records if record.drift is not None]
    if not records:
        return None
    drift, update = (np.full((clients, len(records)), np.nan) for _ in range(2))
    for column, record in enumerate(records):
        assert record.drift is not None
        who = list(record.participants)
        update[who, column] = record.drift.update
        if record.drift.drift is not None:
            drift[who, column] = record.drift.drift
    for column in range(len(records) - 2, -1, -1):
        drift[:, column] = np.where(np.isnan(drift[:, column]), drift[:, column + 1], drift[:, column])
    edges = np.unique(np.linspace(0, len(records), min(columns, len(records)) + 1).astype(int))
    found: Numbers = {"round": [records[i].round for i in edges[:-1]], "update": _binned(update, edges)}
    return found | ({"drift": _binned(drift, edges)} if not np.isnan(drift).all() else {})


def heats(settings: Sequence[Setting], setting: Setting) -> dict[int, Numbers]:
    """The heat maps of a setting's lines, by the line's place."""
    rows = sum(len(each.lines) * each.config.clients for each in settings)
    columns = max(20, min(200, HEAT_CELLS // (2 * rows)))
    found = {i: heat(line, setting.config.clients, columns) for i, line in enumerate(setting.lines)}
    return {i: each for i, each in found.items() if each is not None}


def split(setting: Setting) -> Numbers | None:
    """Clients × classes of the setting's first run that recorded it."""
    run = next((run for run in setting.runs if run.split is not None), None)
    return None if run is None else {"counts": run.split, "seed": run.config.seed}


def held(found: Numbers | None) -> list[tuple[int, int, int]]:
    """The same as a list: client, class, samples, where there are any."""
    rows = [] if found is None else found["counts"]
    return [(i, j, n) for i, row in enumerate(rows) for j, n in enumerate(row) if n]


def error(score: Numbers) -> Numbers:
    """A share in percent as what is missing to 100 %."""
    return {**score, "mean": [_short(100 - each, 5) for each in score["mean"]]}


def sensitivity(setting: Setting) -> list[Numbers]:
    """For each method that was run with several values of α: best score and rounds to the target against α."""
    families: dict[str, dict[float, Line]] = {}
    for line in setting.lines:
        if is_number(line.options.get("alpha", "")):
            rest = line.label.replace(f" α={line.options['alpha']}", "")
            families.setdefault(rest, {})[float(line.options["alpha"])] = line
    several = [(name, family) for name, family in families.items() if len(family) > 1]
    return [
        _against_alpha(name, family, setting) | {"colour": COLOURS[i % len(COLOURS)]}
        for i, (name, family) in enumerate(several)
    ]


def _against_alpha(name: str, family: Mapping[float, Line], setting: Setting) -> Numbers:
    """Every α that was run is there: those that diverged, or did not reach the target with every seed, are marked."""
    lines = {alpha: family[alpha] for alpha in sorted(family) if family[alpha].ended}
    lost = [alpha for alpha, line in lines.items() if any(run.status == "diverged" for run in line.runs)]
    sound = {alpha: line for alpha, line in lines.items() if alpha not in lost and line.best()}
    reach = {alpha: line.reach(setting.target).values() for alpha, line in lines.items()}
    arrived = [alpha for alpha in lines if all(each.reached for each in reach[alpha])]
    shown = setting.measure.shown
    return {
        "label": name,
        "alpha": list(sound),
        "best": band([shown(each) for each in line.best().values()] for line in sound.values()),
        "last": band([shown(each) for each in line.last().values()] for line in sound.values()),
        "diverged": lost,
        "rounds_alpha": arrived,
        "rounds": band([each.rounds for each in reach[alpha]] for alpha in arrived),
        "not_reached": [alpha for alpha in lines if alpha not in arrived],
        "bound": [
            min(each.rounds for each in reach[alpha] if not each.reached) for alpha in lines if alpha not in arrived
        ],
    }


def _binned(matrix: NDArray[np.float64], edges: NDArray[np.int64]) -> list[list[float | None]]:
    """The means of consecutive columns; None where a client has no number in any of them."""
    known = ~np.isnan(matrix)
    totals = np.add.reduceat(np.where(known, matrix, 0.0), edges[:-1], axis=1)
    counts = np.add.reduceat(known.astype(np.float64), edges[:-1], axis=1)
    return [
        [_short(total / count, 3) if count else None for total, count in zip(*rows, strict=True)]
        for rows in zip(totals, counts, strict=True)
    ]


def _short(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
