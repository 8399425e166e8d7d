"""A result as a picture, for notebooks; the report is made from run directories and shows more."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .records import Course, Record, score_in

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(records: Sequence[Record]) -> Figure:
    """The score over rounds and, where drift was measured, the cohort's mean consistency gap and its cosine."""
    from matplotlib.figure import Figure

    score = score_in(records)
    points = [(r.round, r.value * (100 if score.percent else 1)) for r in records if r.value is not None]
    drifts = [(r.round, r.drift) for r in records if r.drift is not None]
    figure = Figure(figsize=(9 if drifts else 4.5, 3), layout="constrained")
    axes = figure.subplots(1, 3 if drifts else 1, squeeze=False)[0]
    axes[0].plot([i for i, _ in points], [value for _, value in points])
    axes[0].set_title(f"test {score.name} (%)" if score.percent else f"test {score.name}")
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


def summary(course: Course) -> str:
    """A run in one line."""
    records, score, found = course.records, score_in(course.records), course.best
    moved = sum(r.bytes_up + r.bytes_down for r in records) / 1e6
    shown = "not evaluated" if found is None else f"best {score.name} {score.text(found)}"
    return f"{len(records)} rounds, {shown}, {moved:.1f} MB moved, {sum(r.seconds for r in records):.1f} s"


def as_html(course: Course) -> str:
    """What a notebook shows: the line, and the picture."""
    file = io.BytesIO()
    plot(course.records).savefig(file, format="png", dpi=110)
    picture = base64.b64encode(file.getvalue()).decode()
    return f'<p>{summary(course)}</p><img alt="{summary(course)}" src="data:image/png;base64,{picture}">'
