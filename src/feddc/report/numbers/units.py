"""Numbers as people read them, over seeds with their deviation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean

from .stats import spread

BARS = "▁▂▃▄▅▆▇█"
_BYTES = {"bytes": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}


def amount(*sizes: float) -> str:
    """Bytes in the unit that leaves a short number."""
    return _in_unit(sizes, _BYTES)


def clock(*seconds: float) -> str:
    """Seconds, minutes or hours."""
    return _in_unit(seconds, _SECONDS)


def _in_unit(values: Sequence[float], units: Mapping[str, float]) -> str:
    """In the largest unit of which there is at least one, with three digits."""
    size = mean(values)
    unit = [name for name, factor in units.items() if size >= factor][-1:] or [next(iter(units))]
    factor = units[unit[0]]
    return f"{spread([each / factor for each in values], _decimals(size / factor))} {unit[0]}"


def _decimals(size: float) -> int:
    """How many decimals leave three digits."""
    return max(0, 2 - math.floor(math.log10(size))) if size > 0 else 0


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = ["|" + "".join(f" {each} |" if each else " |" for each in head), "|---" * len(head) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def bound(value: float, *, above: bool) -> str:
    """A bound with two decimals, rounded to the side on which it stays true."""
    return f"{(math.floor if above else math.ceil)(round(100 * value, 6)) / 100:g}"


def sparkline(values: Sequence[float], low: float, high: float = 1.0, width: int = 16) -> str:
    """Scores over rounds in one line of text, from ``low`` to ``high``."""
    if not values:
        return ""
    picked = [values[i * len(values) // width] for i in range(width)] if len(values) > width else values
    span = max(high - low, 1e-9)
    return "".join(BARS[min(max(int((value - low) / span * len(BARS)), 0), len(BARS) - 1)] for value in picked)
