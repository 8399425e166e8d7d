"""FLamby's heart-disease benchmark (owkin/FLamby, fed_heart_disease): its settings, its published figures, and ours.

Their "Pooled Test" puts all hospitals' patients on one scale although the model is trained on each hospital's own. At
their learning rate of 0.001 FedProx equals FedAvg in every figure, so that it compares nothing; Switzerland has nobody
healthy to train on; and their methods are below what one would score by always naming a hospital's majority class.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean
from typing import Any, NamedTuple

from ..data.natural import HOSPITALS
from ..study.cells import Cell, Number
from ..study.config import resolve
from ..study.study import Study

MAJORITY = (0.516, 0.538, 0.629, 0.938, 0.778)
"""Always the most frequent class of that test set: all patients, then hospital by hospital."""


class Row(NamedTuple):
    """A method, its local learning rate, and FLamby's mean over seeds 42 to 46: pooled, then each hospital."""

    method: str
    lr: float
    published: tuple[float, ...] = ()


_MOMENTS = "beta1=0.9:beta2=0.999:tau=1e-8"
ROWS = {
    "FedAvg": Row("fedavg", 0.001, (0.748, 0.731, 0.719, 0.650, 0.640)),
    "FedProx": Row("fedprox:mu=0.01", 0.001, (0.748, 0.731, 0.719, 0.650, 0.640)),
    "SCAFFOLD": Row("scaffold:form=weighted", 0.001, (0.748, 0.727, 0.719, 0.650, 0.640)),
    "SCAFFOLD, plain means": Row("scaffold", 0.001),
    "FedAdam": Row(f"fedadam:lr=0.01:{_MOMENTS}", 0.01, (0.779, 0.752, 0.746, 0.738, 0.667)),
    "FedYogi": Row(f"fedyogi:lr=0.01:{_MOMENTS}", 0.003162, (0.779, 0.760, 0.753, 0.738, 0.676)),
    "FedAdagrad": Row("fedadagrad:lr=0.316228:beta1=0.9:tau=1e-8", 0.003162, (0.779, 0.760, 0.753, 0.738, 0.676)),
    "FedDyn": Row("feddyn:alpha=0.01", 0.001),
    "FedDC": Row("feddc:alpha=0.01", 0.001),
}


def heart() -> Iterator[Cell]:
    """FLamby's four hospitals, beside its published figures: run it with --seeds 42,43,44,45,46."""
    same = {"model": "linear:zeros=false", "rounds": 15, "steps": 100, "batch_size": 4, "evaluate_every": 15}
    same |= {"lr_decay": 1.0, "weight_decay": 0.0, "clip_norm": "none", "data": "heart-disease:test=pooled"}
    for name, row in ROWS.items():
        config = resolve({**same, "method": row.method, "lr": row.lr})
        published = (Number(100 * row.published[0]),) if row.published else (None,)
        yield Cell("heart-disease", name, "pooled", config, published=published)


def table(study: Study) -> str:
    """Ours, FLamby's after a bar: on all patients, and in each hospital; what is below its majority class is marked."""
    head = ["", "all patients", *HOSPITALS]
    rows = [head]
    for name, row in ROWS.items():
        runs = [outcome.records[-1] for cell in study.cells if cell.row == name and (outcome := study.load(cell))]
        scores: list[list[Any]] = [[r.value, *r.clients.scores] for r in runs if r.clients is not None and r.value]
        if not scores:
            continue
        found = [mean(column) for column in zip(*scores, strict=True)]
        printed = [f" | {value:.3f}" for value in row.published] or [""] * len(found)
        marked = ["*" if value < least else "" for value, least in zip(found, MAJORITY, strict=True)]
        rows.append([name, *(f"{a:.3f}{m}{b}" for a, m, b in zip(found, marked, printed, strict=True))])
    rows.append(["majority class", *(f"{value:.3f}" for value in MAJORITY)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    seeds = len({cell.config.seed for cell in study.cells})
    ours = f"ours, mean of {seeds} seed{'s' if seeds > 1 else ''}"
    note = f"accuracy: {ours} | FLamby's, mean of 5   * below the majority class"
    return "\n".join([*lines, note])
