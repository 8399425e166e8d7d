"""The tables that people publish: best accuracy, rounds and bytes to a target, speed-up over FedAvg."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..engine import Record
from ..engine.records import best_accuracy, bytes_to, rounds_to

BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Row:
    """One method of a comparison, as text."""

    method: str
    best: str
    last: str
    rounds: str
    speedup: str
    megabytes: str
    curve: str


def compare(runs: Sequence[tuple[str, Sequence[Record]]], target: float, budget: int) -> list[Row]:
    """A row per method. '>N' means that N rounds did not reach the target; speed-ups are over the method 'fedavg'."""
    baseline = next((records for label, records in runs if label == "fedavg"), None)
    low = min((r.accuracy for _, records in runs for r in records if r.accuracy is not None), default=0.0)
    return [
        Row(
            method=label,
            best=percent(best_accuracy(records)),
            last=percent(last_accuracy(records)),
            rounds=_rounds(records, target, budget),
            speedup="–"
            if baseline is None
            else speedup(rounds_to(baseline, target), rounds_to(records, target), budget),
            megabytes=_megabytes(records, target),
            curve=sparkline(records, low),
        )
        for label, records in runs
    ]


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f} %"


def last_accuracy(records: Sequence[Record], count: int = 10) -> float | None:
    """The mean accuracy of the last evaluations: what the best one alone would flatter."""
    values = [r.accuracy for r in records if r.accuracy is not None][-count:]
    return sum(values) / len(values) if values else None


def speedup(baseline: float | None, rounds: float | None, budget: int) -> str:
    """Baseline's rounds over the method's; a bound where one of them did not reach the target within ``budget``."""
    if baseline is None and rounds is None:
        return "–"
    if baseline is None:
        return f">{budget / (rounds or budget):.2f}×"
    if rounds is None:
        return f"<{baseline / budget:.2f}×"
    return f"{baseline / rounds:.2f}×"


def sparkline(records: Sequence[Record], low: float, width: int = 16) -> str:
    """Accuracy over rounds in one line of text, from ``low`` to 1."""
    values = [r.accuracy for r in records if r.accuracy is not None]
    if not values:
        return ""
    picked = [values[i * len(values) // width] for i in range(width)] if len(values) > width else values
    span = max(1.0 - low, 1e-9)
    return "".join(BARS[min(int((value - low) / span * len(BARS)), len(BARS) - 1)] for value in picked)


def _rounds(records: Sequence[Record], target: float, budget: int) -> str:
    reached = rounds_to(records, target)
    return f">{budget}" if reached is None else str(reached)


def _megabytes(records: Sequence[Record], target: float) -> str:
    moved = bytes_to(records, target)
    total = sum(r.bytes_up + r.bytes_down for r in records)
    return f">{total / 1e6:.1f}" if moved is None else f"{moved / 1e6:.1f}"
