"""Numbers as people read them."""

from __future__ import annotations


def percent(value: float, digits: int | None = None) -> str:
    """0.9512 as '95.12 %'; with ``digits`` trailing zeros go, as in '95 %'."""
    return f"{100 * value:.2f} %" if digits is None else f"{round(100 * value, digits):g} %"


def amount(size: float) -> str:
    """Bytes in the unit that leaves a short number."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.4g} TB"


def clock(seconds: float) -> str:
    """Seconds as '0.42 s', '1 min 05 s' or '2 h 10 min'."""
    if seconds < 59.5:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, left = divmod(minutes, 60)
    return f"{hours} h {left:02} min" if hours else f"{minutes} min {rest:02} s"
