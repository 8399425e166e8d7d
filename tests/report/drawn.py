"""What a figure of matplotlib shows, in words: its panels, lines, bands, dots, marks and legend, with their looks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator


def described(figure: Figure) -> list[str]:
    """The figure, a line of text for each thing in it."""
    width, height = figure.get_size_inches()
    found = [f"figure {width:.3f} x {height:.3f} inches, {figure.get_layout_engine().__class__.__name__}"]
    for i, axes in enumerate(figure.axes, start=1):
        found += [f"  panel {i}", *(f"    {each}" for each in _panel(axes))]
    for legend in figure.legends:
        names = [text.get_text() for text in legend.texts]
        size = legend.texts[0].get_fontsize()
        keys = [_look(each) for each in legend.legend_handles if hasattr(each, "get_linewidth")]
        found.append(f"  legend {names} in {legend._ncols} columns, {size:g} points, handles {legend.handlelength:g}")
        found.append(f"    frame {legend.get_frame_on()}, keys {keys}")
    return found


def _panel(axes: Any) -> Iterator[str]:
    for side, axis, limits in (("x", axes.xaxis, axes.get_xlim()), ("y", axes.yaxis, axes.get_ylim())):
        label, grid = axis.label, axis.get_gridlines()[0]
        yield f"{side} {label.get_text()!r} {label.get_fontsize():g} points, {axis.get_scale()}, {_numbers(limits)}"
        yield f"  grid {grid.get_visible()} {grid.get_alpha()} {grid.get_linewidth():g}, ticks {_ticks(axis)}"
    shown = [name for name, spine in axes.spines.items() if spine.get_visible()]
    yield f"spines {shown}, aspect {axes.get_aspect()}"
    for line in axes.lines:
        fixed = "" if line.get_transform() == axes.transData else ", at the edge"
        yield f"line {line.get_label()!r} {_look(line)}{fixed}: {_data(line)}"
    for each in axes.collections:
        looks = [to_hex(colour, keep_alpha=True) for colour in each.get_facecolor()[:1]]
        looks += [f"edge {to_hex(colour)}" for colour in each.get_edgecolor()[:1]]
        widths = _numbers(each.get_linewidths())
        if isinstance(each, PathCollection):
            sizes = np.asarray(each.get_sizes())[:, None]
            yield f"dots {looks} widths {widths}: {_shape(np.hstack([each.get_offsets(), sizes]))}"
        else:
            corners = np.unique(np.concatenate([path.vertices for path in each.get_paths()]), axis=0)
            yield f"{'bars' if isinstance(each, LineCollection) else 'band'} {looks} widths {widths}: {_shape(corners)}"
    for text in axes.texts:
        arrow = text.arrow_patch
        look = f"{text.arrowprops['arrowstyle']} {to_hex(arrow.get_edgecolor())} {arrow.get_linewidth():g}"
        look += f" alpha {arrow.get_alpha():g}" if arrow.get_alpha() not in (None, 1) else ""
        look += f" with a head of {text.get_fontsize():g} points"
        yield f"arrow {look} from {_numbers(text.get_position())} to {_numbers(text.xy)}"


def _ticks(axis: Any) -> str:
    locator = axis.get_major_locator()
    known: dict[str, Any] = {}
    if isinstance(locator, MaxNLocator):
        known["within 0.3 to 17"] = _numbers(locator.tick_values(0.3, 17))
        known["within 0 to 2"] = _numbers(locator.tick_values(0, 2))
    if hasattr(locator, "locs"):
        known["at"] = _numbers(locator.locs)
        known["called"] = [(tick.get_text(), tick.get_rotation()) for tick in axis.get_ticklabels()]
    if axis.get_scale() == "log":
        both = axis.get_major_formatter(), axis.get_minor_formatter()
        known["written"] = [
            (each.__class__.__name__, getattr(each, "labelOnlyBase", None), getattr(each, "minor_thresholds", None))
            for each in both
        ]
    return f"{known} {axis.get_ticklabels()[0].get_fontsize():g} points"


def _look(line: Any) -> str:
    look = f"{to_hex(line.get_color())} {line.get_linestyle()} {line.get_linewidth():g}" if _is_line(line) else "-"
    if _is_line(line) and line.get_marker() not in ("None", None, ""):
        inside = line.get_markerfacecolor()
        inside = inside if inside == "none" else to_hex(inside)
        look += f" {line.get_marker()} {line.get_markersize():g} {inside}"
    look += f" alpha {line.get_alpha():g}" if _is_line(line) and line.get_alpha() not in (None, 1) else ""
    return look + (f" order {line.get_zorder():g}" if _is_line(line) else "")


def _is_line(thing: Any) -> bool:
    return hasattr(thing, "get_markersize")


def _data(line: Any) -> str:
    return _shape(np.column_stack([line.get_xdata(), line.get_ydata()]))


def _shape(points: Any) -> str:
    """All of a few points; of many how many there are, the ends, and means that depend on each."""
    points = np.asarray(points, dtype=float)
    if len(points) <= 4:
        return " ".join(f"({_numbers(each)})" for each in points)
    order = np.arange(1, len(points) + 1)[:, None]
    ends = f"({_numbers(points[0])}) to ({_numbers(points[-1])})"
    return (
        f"{len(points)} points, {ends}, mean {_numbers(points.mean(0))}, weighted {_numbers((order * points).mean(0))}"
    )


def _numbers(values: Iterable[float]) -> str:
    return " ".join(f"{each:.4g}" for each in np.asarray(list(values), dtype=float).round(6) + 0.0)
