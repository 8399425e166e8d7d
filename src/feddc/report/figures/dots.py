"""Many methods side by side: a row for each, a panel for each thing that one may choose by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, TypeAlias

from ..lines import Line, Setting
from . import new_figure, paper_style
from .styles import BY_METHOD, on_paper

Values: TypeAlias = Callable[[Line], Sequence[float]]


def save_dots(setting: Setting, path: Path) -> bool:
    """Rounds and bytes to the target, best score and worst clients, for all seeds.

    False where fewer than six methods ran, or none was scored: then there is no picture.

    A dot is the mean over seeds, its bar their deviation. Methods with a seed that missed the target are last, and have
    no dot for it.
    """
    lines = [line for line in setting.lines if line.ended]
    if len(lines) < 6:
        return False
    target, measure = setting.target, setting.measure

    def reached(line: Line, number: str, scale: float = 1.0) -> list[float]:
        found = list(line.reach(target).values())
        return [getattr(each, number) / scale for each in found] if all(each.reached for each in found) else []

    panels: dict[str, Values] = {
        f"rounds to {setting.goal}": lambda line: reached(line, "rounds"),
        f"MB to {setting.goal}": lambda line: reached(line, "moved", 1e6),
        f"best {measure.title}": lambda line: [measure.shown(each) for each in line.best().values()],
        "worst tenth (%)": lambda line: [
            measure.shown(each) for run in line.ended if (each := run.of_clients("worst")) is not None
        ],
    }
    shown = {name: numbers for name, numbers in panels.items() if any(numbers(line) for line in lines)}
    if not shown:
        return False
    first = next(iter(shown.values()))
    lines.sort(key=lambda line: mean(first(line)) if first(line) else float("inf"), reverse=True)
    with paper_style():
        figure, all_axes = new_figure(len(shown), 2)
        figure.set_figheight(0.6 + 0.16 * len(lines))
        for axes, (name, numbers) in zip(all_axes, shown.items(), strict=True):
            for i, line in enumerate(lines):
                if values := numbers(line):
                    width = stdev(values) if len(values) > 1 else 0.0
                    colour = on_paper(BY_METHOD.get(line.name, "#777777"))
                    style: dict[str, Any] = {"color": colour, "marker": "o", "markersize": 3, "linewidth": 0.8}
                    axes.errorbar([mean(values)], [i], xerr=[width], **style)
            axes.set_xlabel(name)
            axes.set_ylim(-0.7, len(lines) - 0.3)
            axes.set_yticks(range(len(lines)), [line.label for line in lines] if axes is all_axes[0] else [])
        figure.savefig(path, dpi=200)
    return True
