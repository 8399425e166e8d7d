"""float32 and bf16 side by side: ``python -m benchmarks.curves RUNS [RUNS …] docs/images/bf16.png``

RUNS is what ``feddc sweep --over precision=float32,bf16 --over seed=0,1 … --out RUNS`` left, one for each data set.
Prints the accuracy in some rounds, a column for each run, and how far the curves are apart: between precisions with
the same seed, and between seeds with the same precision. Draws all of them, a panel for each data set.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

Curves = dict[tuple[str, int], NDArray[np.float64]]
"""The accuracy of every round in percent, by precision and seed."""

SETTLED = 10
"""Curves are compared from this round: before it they climb so fast that a round more or less is several percent."""


def read(runs: Path) -> tuple[str, Curves]:
    """The name of the data set, and the curves, float32 first, as far as the shortest goes."""
    found, data = {}, ""
    for file in sorted(runs.glob("*/config.toml")):
        config = tomllib.loads(file.read_text())
        lines = file.with_name("records.jsonl").read_text().splitlines()
        curve = [100 * json.loads(line)["metrics"]["accuracy"] for line in lines]
        found[config.get("precision", "float32"), config.get("seed", 0)], data = curve, config["data"]
    last = min(map(len, found.values()))
    names = sorted(found, key=lambda name: (name[0] != "float32", name[1]))
    return data, {name: np.array(found[name][:last]) for name in names}


def table(curves: Curves) -> str:
    """The accuracy in some rounds, as Markdown."""
    last = len(next(iter(curves.values())))
    lines = ["| round | " + " | ".join(f"{kind}, seed {seed}" for kind, seed in curves) + " |"]
    lines.append("|---:|" + "---:|" * len(curves))
    for round in sorted({each for each in (5, 10, 20, 30, 40, 50) if each < last} | {last}):
        lines.append(f"| {round} | " + " | ".join(f"{curve[round - 1]:.2f}" for curve in curves.values()) + " |")
    return "\n".join(lines)


def apart(curves: Curves) -> tuple[float, float]:
    """The mean distance of two curves: of two precisions with one seed, of two seeds with one precision."""
    distances: tuple[list[float], list[float]] = ([], [])
    names = list(curves)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            same = [a == b for a, b in zip(one, other, strict=True)]
            if any(same):
                gap = np.abs(curves[one] - curves[other])[SETTLED - 1 :]
                distances[0 if same[1] else 1].append(float(gap.mean()))
    return float(np.mean(distances[0])), float(np.mean(distances[1]))


def draw(axes: Axes, data: str, curves: Curves) -> None:
    for (kind, seed), curve in curves.items():
        style = "-" if kind == "float32" else "--"
        axes.plot(range(1, len(curve) + 1), curve, style, color=f"C{seed}", label=f"{kind}, seed {seed}")
    low, high = min(curve[SETTLED - 1 :].min() for curve in curves.values()), max(map(np.max, curves.values()))
    axes.set(title=data, xlabel="round", ylabel="accuracy, %", ylim=(low - (high - low), high + 0.1 * (high - low)))
    axes.legend()


def main(*arguments: str) -> None:
    *runs, picture = arguments
    figure = Figure(figsize=(4.5 * len(runs), 3), layout="constrained")
    for axes, folder in zip(figure.subplots(1, len(runs), squeeze=False)[0], runs, strict=True):
        data, curves = read(Path(folder))
        precisions, seeds = apart(curves)
        print(f"{data}\n\n{table(curves)}\n")
        print(f"apart from round {SETTLED} on, mean: precisions {precisions:.2f}, seeds {seeds:.2f} points\n")
        draw(axes, data, curves)
    figure.savefig(picture, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:])
