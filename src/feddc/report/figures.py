"""Figures, through matplotlib: colours that the colour-blind can tell apart, and a line style for each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..engine import Record

# Okabe and Ito's palette.
COLOURS = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#D55E00", "#0072B2", "#CC79A7", "#999999"]
STYLES = ["-", "--", "-.", ":"]


def convergence(runs: Sequence[tuple[str, Sequence[Record]]], target: float, title: str, path: Path) -> None:
    """Accuracy against rounds and against bytes, one line per method, saved as ``path`` (png, pdf or svg)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    by_rounds, by_bytes = figure.subplots(1, 2, sharey=True)
    for i, (label, records) in enumerate(runs):
        style: dict[str, Any] = {"color": COLOURS[i % len(COLOURS)], "linestyle": STYLES[i % len(STYLES)]}
        style["linewidth"] = 2.2 if label.startswith("feddc") else 1.3
        points = _points(records)
        by_rounds.plot([p[0] for p in points], [p[2] for p in points], label=label, **style)
        by_bytes.plot([p[1] for p in points], [p[2] for p in points], **style)
    for axes, name in ((by_rounds, "round"), (by_bytes, "megabytes moved, both ways")):
        axes.axhline(100 * target, color="#bbbbbb", linewidth=0.8, zorder=0)
        axes.set_xlabel(name)
        axes.grid(alpha=0.25)
    values = sorted(p[2] for _, records in runs for p in _points(records))
    if values:
        # The first rounds of a slow method would squeeze what matters into the top of the picture.
        by_rounds.set_ylim(bottom=values[len(values) // 20] - 1)
    by_rounds.set_ylabel("test accuracy (%)")
    by_rounds.legend(fontsize=8, loc="lower right")
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=150)


def _points(records: Sequence[Record]) -> list[tuple[int, float, float]]:
    """(round, megabytes so far, accuracy in percent) of every evaluated round."""
    points = []
    moved = 0
    for record in records:
        moved += record.bytes_up + record.bytes_down
        if record.accuracy is not None:
            points.append((record.round, moved / 1e6, 100 * record.accuracy))
    return points
