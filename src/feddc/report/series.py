"""What the figures of a report draw: means and bands over seeds, drift, the split, sensitivity to α."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine import Record
from .settings import Line, Setting, is_number

Numbers = dict[str, Any]
HEAT_CELLS = 400_000
"""A report's heat maps have at most about so many cells in all: beyond, rounds are averaged in columns."""


def band(columns: Iterable[Sequence[float]], digits: int = 5) -> Numbers:
    """Mean and deviation over seeds, point by point; without a deviation where there is one seed."""
    points = list(columns)
    several = bool(points) and len(points[0]) > 1
    found: Numbers = {"mean": [_short(mean(each), digits) for each in points]}
    return found | ({"sd": [_short(stdev(each), digits) for each in points]} if several else {})


def curves(line: Line) -> Numbers:
    """Accuracy and loss against rounds, bytes and seconds, as far as all seeds go."""
    seeds = [_evaluated(run.records) for run in line.runs]
    rounds = sorted(set.intersection(*(set(each) for each in seeds)))
    rows = [[seed[r] for seed in seeds] for r in rounds]
    accuracy, loss, moved, seconds = ([[point[i] for point in row] for row in rows] for i in range(4))
    return {
        "round": rounds,
        "megabytes": band(moved)["mean"],
        "seconds": band(seconds)["mean"],
        "accuracy": band(accuracy),
        "loss": band(loss),
    }


def _evaluated(records: Sequence[Record]) -> dict[int, tuple[float, float, float, float]]:
    """Accuracy in percent, loss, megabytes so far and seconds so far, of every evaluated round."""
    moved = accumulate(record.bytes_up + record.bytes_down for record in records)
    seconds = accumulate(record.seconds for record in records)
    return {
        record.round: (100 * record.accuracy, record.loss, size / 1e6, spent)
        for record, size, spent in zip(records, moved, seconds, strict=True)
        if record.accuracy is not None and record.loss is not None
    }


def drift_curves(line: Line) -> Numbers | None:
    """Over rounds: the cohort's mean gap and update, and the cosine between updates; None without diagnostics."""
    seeds = [{r.round: r.drift for r in run.records if r.drift is not None} for run in line.runs]
    rounds = sorted(set.intersection(*(set(each) for each in seeds)))
    if not rounds:
        return None
    found: Numbers = {"round": rounds}
    for key in ("gap", "update"):
        found[key] = band([mean(getattr(seed[r], key)) for seed in seeds] for r in rounds)
    paired = [r for r in rounds if all(seed[r].cosine is not None for seed in seeds)]
    cosines = [[seed[r].cosine or 0.0 for seed in seeds] for r in paired]
    return found | {"cosine_round": paired, "cosine": band(cosines)}


def heat(line: Line, clients: int, columns: int) -> Numbers | None:
    """Clients × rounds of the line's first seed: the drift that each holds, and its updates. None without diagnostics.

    Between two rounds that a client takes part in its drift does not change, so that the later one tells of both.
    """
    records = [record for record in line.runs[0].records if record.drift is not None]
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


def sensitivity(setting: Setting) -> list[Numbers]:
    """For each method that was run with several values of α: best accuracy and rounds to the target against α."""
    families: dict[str, dict[float, Line]] = {}
    for line in setting.lines:
        if is_number(line.options.get("alpha", "")):
            rest = line.label.replace(f":alpha={line.options['alpha']}", "")
            families.setdefault(rest, {})[float(line.options["alpha"])] = line
    return [_against_alpha(name, family, setting) for name, family in families.items() if len(family) > 1]


def _against_alpha(name: str, family: Mapping[float, Line], setting: Setting) -> Numbers:
    alphas = [alpha for alpha in sorted(family) if family[alpha].best()]
    costs = [family[alpha].mean_cost_to(setting.target) for alpha in alphas]
    best = band([100 * each for each in family[alpha].best()] for alpha in alphas)
    last = band([100 * each for each in family[alpha].last()] for alpha in alphas)
    return {"label": name, "alpha": alphas, "best": best, "last": last, "rounds": [cost and cost[0] for cost in costs]}


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
