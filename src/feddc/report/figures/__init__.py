"""Figures through matplotlib, one or two columns of a paper wide, with colours that the colour-blind can tell apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ..lines import Line, Setting
from . import series
from .styles import Style, on_paper, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTHS = {1: 3.35, 2: 6.9}
"""Inches: one column of the two-column conferences, and both."""
DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
Drawing: TypeAlias = "Callable[[Setting, int], Figure | None]"


def convergence(setting: Setting, columns: int = 1) -> Figure | None:
    """The score against rounds, and against bytes; over both columns also the error on a logarithmic axis."""
    from matplotlib.ticker import LogFormatter

    found = [(line, look, series.curves(line)) for line, look in _looks(setting)]
    values = sorted(value for _, _, each in found for value in each["score"]["mean"])
    if not values:
        return None
    measure = setting.measure
    figure, axes = new_figure(3 if columns == 2 and measure.percent else 2, columns)
    by_rounds, by_bytes, *more = axes
    for line, look, each in found:
        _draw(by_rounds, line, look, each["round"], each["score"])
        _draw(by_bytes, line, look, each["megabytes"], each["score"])
        for by_error in more:
            _draw(by_error, line, look, each["round"], series.error(each["score"]))
    for panel, name in ((by_rounds, "round"), (by_bytes, "MB moved, both ways")):
        panel.axhline(measure.shown(setting.target), color="#999999", linewidth=0.6, zorder=0)
        panel.set_xlabel(name)
        panel.set_ylim(*_window(values, measure.higher_is_better))
    by_rounds.set_ylabel(f"test {measure.title}")
    for by_error in more:
        by_error.set(yscale="log", xlabel="round", ylabel="test error (%)")
        for axis in (by_error.yaxis.set_major_formatter, by_error.yaxis.set_minor_formatter):
            axis(LogFormatter(labelOnlyBase=False, minor_thresholds=(1.5, 0.5)))
    _legend(figure, by_rounds, columns)
    return figure


def _window(values: Sequence[float], higher_is_better: bool) -> tuple[float, float]:
    """What an axis shows of ascending values: not the worst 4 %, as the first rounds would squeeze the rest."""
    aside = len(values) // 25
    low, high = (values[aside], values[-1]) if higher_is_better else (values[0], values[-1 - aside])
    room = 0.05 * (high - low) or 1.0
    return low - room, high + room


def drift(setting: Setting, columns: int = 1) -> Figure | None:
    """The consistency gap, and the cosine between updates as a running mean of five rounds, against rounds."""
    found = [(line, look, each) for line, look in _looks(setting) if (each := series.drift_curves(line)) is not None]
    if not found:
        return None
    figure, (gap, cosine) = new_figure(2, columns)
    for line, look, each in found:
        _draw(gap, line, look, each["round"], each["gap"])
        _draw(cosine, line, look, each["cosine_round"], each["cosine"])
    for axes, name in ((gap, "consistency gap"), (cosine, "cosine of updates")):
        axes.set_xlabel("round")
        axes.set_ylabel(name)
    gap.set_ylim(bottom=0)
    _legend(figure, gap, columns)
    return figure


def split(setting: Setting, columns: int = 1) -> Figure | None:
    """Samples of each class at each client, as dots of that size."""
    from matplotlib.ticker import MaxNLocator

    found = series.split(setting)
    points = series.held(found)
    if found is None or not points:
        return None
    figure, (axes,) = new_figure(1, columns)
    counts: Sequence[Sequence[int]] = found["counts"]
    x, y, samples = zip(*points, strict=True)
    room = (900 if columns == 1 else 2400) / max(len(counts), 2 * len(counts[0]))
    axes.scatter(x, y, s=[room * n / max(samples) for n in samples], color="#0072B2", linewidths=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.08, y=0.15)
    axes.set_xlabel("client")
    axes.set_ylabel("class")
    return figure


def alpha(setting: Setting, columns: int = 1) -> Figure | None:
    """Best score and rounds to the target against α; a cross at the edge where a run diverged or did not get there."""
    families = series.sensitivity(setting)
    if not families:
        return None
    figure, (best, rounds) = new_figure(2, columns)
    measure = setting.measure
    values = sorted({each for family in families for key in ("alpha", "not_reached") for each in family[key]})
    for axes, name in ((best, f"best {measure.title}"), (rounds, f"rounds to {setting.goal}")):
        axes.set(xscale="log", xlabel="α", ylabel=name)
        axes.set_xticks(values, [f"{each:g}" for each in values], rotation=90 if len(values) > 4 else 0)
        axes.set_xticks([], minor=True)
        axes.margins(x=0.1, y=0.12)
    for family in families:
        colour = on_paper(family["colour"])
        style: dict[str, Any] = {"color": colour, "marker": "o", "markersize": 3, "label": family["label"]}
        best.errorbar(family["alpha"], family["best"]["mean"], _errors(family["best"]), **style)
        rounds.errorbar(family["rounds_alpha"], family["rounds"]["mean"], _errors(family["rounds"]), **style)
        for axes, lost, edge in ((best, family["diverged"], 0.04), (rounds, family["not_reached"], 0.96)):
            if lost:
                axes.plot(lost, [edge] * len(lost), "x", color=colour, transform=axes.get_xaxis_transform())
    _legend(figure, best, columns)
    return figure


DRAWINGS: dict[str, Drawing] = {"convergence": convergence, "drift": drift, "split": split, "alpha": alpha}


def load() -> None:
    """Import what a picture needs, while others compute: it takes as long as drawing one."""
    import matplotlib.backends.backend_agg
    import matplotlib.figure  # noqa: F401


def paper_style() -> AbstractContextManager[None]:
    """Sizes as in a paper's columns, and text that stays text; around drawing and saving."""
    from matplotlib import rc_context

    small = {"font.size": 8, "axes.labelsize": 8, "legend.fontsize": 6.5, "xtick.labelsize": 7, "ytick.labelsize": 7}
    settings: Any = {**small, "pdf.fonttype": 42, "svg.fonttype": "none"}
    return rc_context(settings)


def save_picture(setting: Setting, path: Path) -> bool:
    """The convergence figure over both columns, as a picture; False where there is nothing to draw."""
    with paper_style():
        figure = convergence(setting, 2)
        if figure is not None:
            figure.savefig(path, dpi=200)
    return figure is not None


def _looks(setting: Setting) -> list[tuple[Line, Style]]:
    return [pair for pair in zip(setting.lines, styles(setting.lines), strict=True) if pair[0].ran]


def new_figure(panels: int, columns: int) -> tuple[Figure, Sequence[Axes]]:
    """An empty figure with panels side by side."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(WIDTHS[columns], 1.9 if columns == 1 else 2.2), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for each in axes:
        each.grid(alpha=0.25, linewidth=0.5)
        each.spines[["top", "right"]].set_visible(False)
        each.xaxis.set_major_locator(MaxNLocator(5 if columns == 1 else 7, steps=[1, 2, 5, 10]))
    return figure, axes


def _legend(figure: Figure, axes: Axes, columns: int) -> None:
    """Above the figure, which grows by as much as it takes."""
    handles, labels = axes.get_legend_handles_labels()
    across = max(1, min(len(labels), 54 * columns // (max(map(len, labels)) + 8)))
    figure.set_figheight(figure.get_figheight() - 0.15 + 0.14 * -(-len(labels) // across))
    figure.legend(handles, labels, loc="outside upper center", ncols=across, handlelength=2.4, frameon=False)


def _draw(axes: Axes, line: Line, look: Style, x: Sequence[float], values: series.Numbers) -> None:
    colour = on_paper(look.colour)
    style: dict[str, Any] = {"color": colour, "linestyle": DASHES[look.dash], "linewidth": 0.45 * look.width}
    axes.plot(x, values["mean"], label=line.label, marker="o" if len(x) == 1 else None, markersize=3, **style)
    if "sd" in values:
        pairs = list(zip(values["mean"], values["sd"], strict=True))
        low, high = [mean - sd for mean, sd in pairs], [mean + sd for mean, sd in pairs]
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)


def _errors(values: series.Numbers) -> list[float] | None:
    return [each or 0.0 for each in values["sd"]] if "sd" in values else None
