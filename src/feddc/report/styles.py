"""How each line looks, the same in the page and on paper: a method keeps its colour from figure to figure."""

from __future__ import annotations

from collections.abc import Sequence

from .settings import Line

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


def styles(lines: Sequence[Line]) -> list[dict[str, object]]:
    """Colour, dash and width of each line; by method where every method has one line and a colour of its own."""
    names = [line.name for line in lines]
    own = len(set(names)) == len(names) and set(names) <= set(BY_METHOD)
    return [
        {
            "colour": BY_METHOD[line.name] if own else COLOURS[i % len(COLOURS)],
            "dash": DASHES[list(BY_METHOD).index(line.name) % 4 if own else i // len(COLOURS) % 4],
            "width": 3 if own and line.name == "feddc" else 2,
        }
        for i, line in enumerate(lines)
    ]
