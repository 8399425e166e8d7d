"""The tables that people publish: best accuracy, rounds and bytes to a target, speed-up over FedAvg."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..engine import Record
from ..engine.records import best, bytes_to, rounds_to, score_in, values

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
    everything = [value for _, records in runs for value in values(records)]
    low = min(everything, default=0.0)
    high = 1.0 if all(score_in(records).percent for _, records in runs) else max(everything, default=1.0)
    return [
        Row(
            method=label,
            best=score_in(records).text(best(records)),
            last=score_in(records).text(last_value(records)),
            rounds=_rounds(records, target, budget),
            speedup="–"
            if baseline is None
            else speedup(rounds_to(baseline, target), rounds_to(records, target), budget),
            megabytes=_megabytes(records, target),
            curve=sparkline(records, low, high=high),
        )
        for label, records in runs
    ]


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f} %"


def last_value(records: Sequence[Record], count: int = 10) -> float | None:
    """The mean score of the last evaluations: what the best one alone would flatter."""
    last = values(records)[-count:]
    return sum(last) / len(last) if last else None


def speedup(baseline: float | None, rounds: float | None, budget: int) -> str:
    """Baseline's rounds over the method's; a bound where one of them did not reach the target within ``budget``."""
    if baseline is None and rounds is None:
        return "–"
    if baseline is None:
        return f">{budget / (rounds or budget):.2f}×"
    if rounds is None:
        return f"<{baseline / budget:.2f}×"
    return f"{baseline / rounds:.2f}×"


def sparkline(records: Sequence[Record], low: float, width: int = 16, high: float = 1.0) -> str:
    """The score over rounds in one line of text, from ``low`` to ``high``."""
    found = values(records)
    if not found:
        return ""
    picked = [found[i * len(found) // width] for i in range(width)] if len(found) > width else found
    span = max(high - low, 1e-9)
    return "".join(BARS[max(0, min(int((value - low) / span * len(BARS)), len(BARS) - 1))] for value in picked)


def _rounds(records: Sequence[Record], target: float, budget: int) -> str:
    reached = rounds_to(records, target)
    return f">{budget}" if reached is None else str(reached)


def _megabytes(records: Sequence[Record], target: float) -> str:
    moved = bytes_to(records, target)
    total = sum(r.bytes_up + r.bytes_down for r in records)
    return f">{total / 1e6:.1f}" if moved is None else f"{moved / 1e6:.1f}"
