"""Figures for a paper: one column wide, with colours that the colour-blind can tell apart, and the numbers as CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from . import series
from .settings import Line, Setting
from .styles import COLOURS, INK, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN = 3.35  # inches: a column of the two-column conferences
DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
Rows: TypeAlias = list[Sequence[object]]
Drawing: TypeAlias = Callable[[Setting], tuple["Figure", Rows] | None]


def export(settings: Sequence[Setting], folder: Path, formats: Sequence[str]) -> Iterator[Path]:
    """Write the figures of every setting into ``folder``, each with its numbers, and name the files as they come."""
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    small: Any = {
        "font.size": 8,
        "axes.labelsize": 8,
        "legend.fontsize": 6.5,
        "xtick.labelsize": 7,
        "ytick.labelsize": 7,
    }
    for setting in settings:
        stem = "" if len(settings) == 1 else re.sub(r"[^A-Za-z0-9.]+", "-", setting.title).strip("-") + "-"
        for name, draw in DRAWINGS.items():
            with rc_context({**small, "pdf.fonttype": 42, "svg.fonttype": "none"}):  # text stays text
                made = draw(setting)
                if made is None:
                    continue
                figure, rows = made
                for each in formats:
                    figure.savefig(folder / f"{stem}{name}.{each}", dpi=300)
                    yield folder / f"{stem}{name}.{each}"
            with (folder / f"{stem}{name}.csv").open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(rows)
            yield folder / f"{stem}{name}.csv"


def convergence(setting: Setting) -> tuple[Figure, Rows] | None:
    """Accuracy against rounds, and against bytes."""
    found = [(line, series.curves(line)) for line in setting.lines]
    if not any(each["round"] for _, each in found):
        return None
    figure, (by_rounds, by_bytes) = _figure(2, sharey=True)
    rows: Rows = [("method", "round", "megabytes", "seconds", "accuracy", "accuracy_sd", "loss", "loss_sd")]
    for (line, each), style in zip(found, styles(setting.lines), strict=True):
        _draw(by_rounds, line, style, each["round"], each["accuracy"])
        _draw(by_bytes, line, style, each["megabytes"], each["accuracy"])
        columns = [each[key] for key in ("round", "megabytes", "seconds")] + _columns(each, "accuracy", "loss")
        rows += [(line.label, *values) for values in zip(*columns, strict=True)]
    for axes, name in ((by_rounds, "round"), (by_bytes, "MB moved, both ways")):
        axes.axhline(100 * setting.target, color="#999999", linewidth=0.6, zorder=0)
        axes.set_xlabel(name)
    values = sorted(value for _, each in found for value in each["accuracy"]["mean"])
    by_rounds.set_ylim(bottom=values[len(values) // 25] - 1)  # the first rounds would squeeze what matters into a strip
    by_rounds.set_ylabel("test accuracy (%)")
    _legend(figure, by_rounds)
    return figure, rows


def drift(setting: Setting) -> tuple[Figure, Rows] | None:
    """The consistency gap, and the cosine between updates as a running mean of five rounds, against rounds."""
    found = [
        (line, style, series.drift_curves(line))
        for line, style in zip(setting.lines, styles(setting.lines), strict=True)
    ]
    if not any(each for _, _, each in found):
        return None
    figure, (gap, cosine) = _figure(2)
    rows: Rows = [("method", "round", "gap", "gap_sd", "update", "update_sd", "cosine")]
    for line, style, each in found:
        if each is not None:
            _draw(gap, line, style, each["round"], each["gap"])
            _draw(cosine, line, style, each["cosine_round"], {"mean": smooth(each["cosine"]["mean"])})
            cosines = dict(zip(each["cosine_round"], each["cosine"]["mean"], strict=True))
            columns = [each["round"], *_columns(each, "gap", "update")]
            rows += [(line.label, *values, cosines.get(values[0], "")) for values in zip(*columns, strict=True)]
    for axes, name in ((gap, "consistency gap"), (cosine, "cosine between updates")):
        axes.set_xlabel("round")
        axes.set_title(name, fontsize=8)
    gap.set_ylim(bottom=0)
    _legend(figure, gap)
    return figure, rows


def split(setting: Setting) -> tuple[Figure, Rows] | None:
    """Samples of each class at each client, as dots of that size."""
    from matplotlib.ticker import MaxNLocator

    found = series.split(setting)
    if found is None:
        return None
    counts: Sequence[Sequence[int]] = found["counts"]
    figure, (axes,) = _figure(1)
    largest = max(max(row) for row in counts)
    points = [(i, j, n) for i, row in enumerate(counts) for j, n in enumerate(row) if n]
    x, y, sizes = zip(*points, strict=True)
    room = 900 / max(len(counts), 2 * len(counts[0]))
    axes.scatter(x, y, s=[room * n / largest for n in sizes], color="#0072B2", linewidths=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("client")
    axes.set_ylabel("class")
    rows: Rows = [("client", "class", "samples"), *points]
    return figure, rows


def alpha(setting: Setting) -> tuple[Figure, Rows] | None:
    """Best accuracy against α, for methods that were run with several values of it."""
    families = series.sensitivity(setting)
    if not families:
        return None
    figure, (axes,) = _figure(1)
    rows: Rows = [("method", "alpha", "best", "best_sd", "rounds")]
    for i, family in enumerate(families):
        axes.errorbar(
            family["alpha"],
            family["best"]["mean"],
            family["best"].get("sd"),
            color=COLOURS[i % len(COLOURS)],
            marker="o",
            markersize=3,
            label=family["label"],
        )
        columns = [
            family["alpha"],
            *_columns(family, "best"),
            ["" if each is None else each for each in family["rounds"]],
        ]
        rows += [(family["label"], *values) for values in zip(*columns, strict=True)]
    axes.set_xscale("log")
    axes.set_xlabel("α")
    axes.set_ylabel("best accuracy (%)")
    axes.legend(frameon=False)
    return figure, rows


DRAWINGS: dict[str, Drawing] = {"convergence": convergence, "drift": drift, "split": split, "alpha": alpha}


def _figure(panels: int, *, sharey: bool = False) -> tuple[Figure, Sequence[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(COLUMN, 1.9), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False, sharey=sharey)[0]
    for each in axes:
        each.grid(alpha=0.25, linewidth=0.5)
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _legend(figure: Figure, axes: Axes) -> None:
    """Above the figure, which grows by as much as it takes."""
    handles, labels = axes.get_legend_handles_labels()
    columns = max(1, min(3, 54 // (max(map(len, labels)) + 8)))
    figure.set_figheight(1.75 + 0.14 * -(-len(labels) // columns))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, handlelength=2.4, frameon=False)


def smooth(values: Sequence[float], reach: int = 2) -> list[float]:
    """A running mean: the cosine of a small cohort jumps from round to round."""
    windows = (values[max(0, i - reach) : i + reach + 1] for i in range(len(values)))
    return [sum(window) / len(window) for window in windows]


def _draw(axes: Axes, line: Line, style: Any, x: Sequence[float], values: series.Numbers) -> None:
    colour = "black" if style.colour == INK else style.colour
    width = 0.45 * style.width
    axes.plot(x, values["mean"], label=line.label, color=colour, linestyle=DASHES[style.dash], linewidth=width)
    if "sd" in values:
        low, high = ([m + sign * s for m, s in zip(values["mean"], values["sd"], strict=True)] for sign in (-1, 1))
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)


def _columns(each: series.Numbers, *keys: str) -> list[Sequence[object]]:
    """Mean and deviation of each key; the deviation is empty where there is one seed."""
    return [
        column for key in keys for column in (each[key]["mean"], each[key].get("sd", [""] * len(each[key]["mean"])))
    ]
