"""How each line looks, the same in the page and on paper: a method keeps its colour from figure to figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..lines import Line

INK = "ink"
"""Black on white, white on black."""
# Okabe and Ito's palette: colours that the colour-blind can tell apart.
BY_METHOD = {
    "fedavg": INK,
    "fedprox": "#E69F00",
    "scaffold": "#56B4E9",
    "feddyn": "#009E73",
    "feddc": "#D55E00",
    "fedadam": "#0072B2",
    "fedyogi": "#CC79A7",
    "fedadagrad": "#999999",
}
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#999999", INK)
DASHES = ("solid", "dash", "dot", "dashdot")


class Style(NamedTuple):
    """How a line is drawn."""

    colour: str
    dash: str
    width: int


def on_paper(colour: str) -> str:
    """The colour where the background is white."""
    return "black" if colour == INK else colour


def styles(lines: Sequence[Line]) -> list[Style]:
    """Colour, dash and width of each line. A method with one line has its own colour; the others take what is left."""
    names = [line.name for line in lines]
    own = {name for name in names if names.count(name) == 1 and name in BY_METHOD}
    free = [colour for colour in COLOURS if colour not in {BY_METHOD[name] for name in own}] or list(COLOURS)
    found: list[Style] = []
    others = 0
    for line in lines:
        if line.name in own:
            dash = DASHES[list(BY_METHOD).index(line.name) % len(DASHES)]
            found.append(Style(BY_METHOD[line.name], dash, 3 if line.name == "feddc" else 2))
        else:
            found.append(Style(free[others % len(free)], DASHES[others // len(free) % len(DASHES)], 2))
            others += 1
    return found
