"""A result as a picture, for notebooks; the report is made from run directories and shows more."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .records import Record, best_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(records: Sequence[Record]) -> Figure:
    """Accuracy over rounds and, where drift was measured, the cohort's mean consistency gap and its cosine."""
    from matplotlib.figure import Figure

    points = [(r.round, 100 * r.accuracy) for r in records if r.accuracy is not None]
    drifts = [(r.round, r.drift) for r in records if r.drift is not None]
    figure = Figure(figsize=(9 if drifts else 4.5, 3), layout="constrained")
    axes = figure.subplots(1, 3 if drifts else 1, squeeze=False)[0]
    axes[0].plot([i for i, _ in points], [accuracy for _, accuracy in points])
    axes[0].set_title("test accuracy (%)")
    if drifts:
        axes[1].plot([i for i, _ in drifts], [sum(drift.gap) / len(drift.gap) for _, drift in drifts])
        axes[1].set_title("consistency gap")
        cosines = [(i, drift.cosine) for i, drift in drifts if drift.cosine is not None]
        axes[2].plot([i for i, _ in cosines], [cosine for _, cosine in cosines])
        axes[2].set_title("cosine between updates")
    for each in axes:
        each.set_xlabel("round")
        each.grid(alpha=0.3)
    return figure


def summary(records: Sequence[Record]) -> str:
    """A run in one line."""
    best = best_accuracy(records)
    moved = sum(r.bytes_up + r.bytes_down for r in records) / 1e6
    accuracy = "not evaluated" if best is None else f"best accuracy {100 * best:.2f} %"
    return f"{len(records)} rounds, {accuracy}, {moved:.1f} MB moved, {sum(r.seconds for r in records):.1f} s"


def as_html(records: Sequence[Record]) -> str:
    """What a notebook shows: the line, and the picture."""
    file = io.BytesIO()
    plot(records).savefig(file, format="png", dpi=110)
    picture = base64.b64encode(file.getvalue()).decode()
    return f'<p>{summary(records)}</p><img alt="{summary(records)}" src="data:image/png;base64,{picture}">'
