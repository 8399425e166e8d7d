"""The page of all cells: published, measured and a verdict, from every file of results in a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any, get_args

from ..algorithms import METHODS, display_name
from ..errors import RunError
from ..specs import Spec
from ..storage.atomic import write_whole
from . import stored
from .figures import new_figure, paper_style
from .figures.styles import BY_METHOD, INK, on_paper
from .numbers.units import markdown_table
from .numbers.verdicts import RULE, Compared, Verdict, compare
from .runs import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEM = "summary"
MARKERS = {
    "mnist": "o",
    "fashion-mnist": "s",
    "cifar10": "^",
    "cifar100": "v",
    "emnist-l": "D",
    "tiny-imagenet": "*",
    "synthetic": "P",
}
"""Of each of the paper's data sets."""


def page(folder: Path, command: str) -> Path:
    """Write summary.md and its picture from the files of results in ``folder``."""
    found = {file.name: _of_the_paper(stored.load(file).values()) for file in sorted(folder.glob("*.json"))}
    cells = [each for each in compare([run for runs in found.values() for run in runs]) if each.seeds or each.diverged]
    if not cells:
        raise RunError(f"{folder} has no results of the paper's cells: `feddc reproduce STUDY --report {folder}` first")
    cells.sort(key=_order)
    picture = f"{STEM}.png"
    save_picture([each for each in cells if each.seeds], folder / picture)
    read = ", ".join(f"`{name}`" for name, runs in found.items() if runs)
    parts = ["# All cells: published against measured\n", f"Made by `{command}` from {read}.\n", _counts(cells)]
    parts += [f"![Published against measured, a point for each cell]({picture})\n", RULE, _table(cells)]
    write_whole(folder / f"{STEM}.md", "\n".join(parts))
    return folder / f"{STEM}.md"


def _of_the_paper(runs: Iterable[Run]) -> list[Run]:
    """Those of the FedDC paper's data sets: other benchmarks have pages of their own."""
    return [run for run in runs if Spec.parse(run.config.data).name in MARKERS]


def save_picture(cells: Sequence[Compared], path: Path) -> None:
    """Rounds and test errors, published against measured, on logarithmic axes; arrows where rounds did not suffice."""
    with paper_style():
        figure, panels = new_figure(2, 2)
        kinds = ([each for each in cells if each.target is not None], [each for each in cells if each.target is None])
        for axes, members, name in zip(panels, kinds, ("rounds to a target", "test error (%)"), strict=True):
            for each in members:
                _point(axes, each)
            axes.set(xscale="log", yscale="log", xlabel=f"{name}, published", ylabel=f"{name}, measured")
            axes.set_aspect("equal", adjustable="datalim")
            ends = [*axes.get_xlim(), *axes.get_ylim()]
            axes.plot([min(ends), max(ends)], [min(ends), max(ends)], color="#999999", linewidth=0.6, zorder=0)
        figure.set_figheight(3.4)
        _key(figure, cells)
        figure.savefig(path, dpi=200)


def _point(axes: Axes, cell: Compared) -> None:
    error = cell.target is None
    values = [100 - each for each in cell.values] if error else [*cell.values, *map(float, cell.bounds)]
    x, y = 100 - cell.published.value if error else cell.published.value, mean(values)
    spread = stdev(values) if len(values) > 1 else None
    colour, pale = _colour(cell.method), {"alpha": 0.3 if cell.verdict() == "too short" else 1.0}
    style: dict[str, Any] = {"color": colour, "marker": MARKERS.get(cell.data, "x"), "markersize": 3.5, **pale}
    style |= {"markerfacecolor": "none"} if cell.bounds or cell.published.censored else {}
    axes.errorbar([x], [y], None if spread is None else [[min(spread, 0.9 * y)], [spread]], linewidth=0.8, **style)
    for short, dx, dy in ((cell.published.censored, 9, 0), (bool(cell.bounds), 0, 9)):
        if short:
            # Its tail is the text, which is empty.
            arrow = {"arrowstyle": "<-", "color": colour, "linewidth": 0.6, **pale}
            axes.annotate("", (x, y), xytext=(dx, dy), textcoords="offset points", arrowprops=arrow)


def _key(figure: Any, cells: Sequence[Compared]) -> None:
    from matplotlib.lines import Line2D

    methods = [name for name in map(display_name, METHODS) if any(each.method == name for each in cells)]
    data = list(dict.fromkeys(each.data for each in cells))
    above = [Line2D([], [], color=_colour(name), marker="o", ls="", ms=3.5, label=name) for name in methods]
    below = [Line2D([], [], color="#999999", marker=MARKERS.get(name, "x"), ls="", ms=3.5, label=name) for name in data]
    pairs = zip_longest(above, below, fillvalue=Line2D([], [], ls="", label=""))  # a legend is filled column by column
    columns = max(len(above), len(below))
    figure.legend(handles=[*chain(*pairs)], loc="outside upper center", ncols=columns, frameon=False, handlelength=1)


def _colour(method: str) -> str:
    return on_paper(next((BY_METHOD[name] for name in BY_METHOD if display_name(name) == method), INK))


def _counts(cells: Sequence[Compared]) -> str:
    verdicts = get_args(Verdict)
    rows = []
    for data, what in dict.fromkeys((each.data, each.what) for each in cells):
        count = Counter(each.verdict() for each in cells if (each.data, each.what) == (data, what))
        rows.append([f"{data}, {what}", *(str(count[word]) for word in verdicts)])
    return markdown_table(["", *verdicts], rows)


def _table(cells: Sequence[Compared]) -> str:
    rows = []
    for each in cells:
        verdict = f"**{each.verdict()}**" if each.verdict() == "differs" else each.verdict()
        rows.append([each.setting, each.method, each.what, str(each.published), each.ours, str(each.seeds), verdict])
    return markdown_table(["setting", "method", "", "published", "ours", "seeds", "verdict"], rows)


def _order(cell: Compared) -> tuple[Any, ...]:
    known = list(map(display_name, METHODS))
    return list(MARKERS).index(cell.data), cell.target or 2.0, cell.setting, known.index(cell.method)
