"""Numbers as people publish them."""

from __future__ import annotations

from feddc.engine import Record
from feddc.report.tables import compare, sparkline, speedup


def records(*accuracies: float | None) -> list[Record]:
    metrics = [{} if a is None else {"accuracy": a} for a in accuracies]
    return [Record(i + 1, each, (0,), 600_000, 400_000, 0.1) for i, each in enumerate(metrics)]


def test_rows() -> None:
    runs = [
        ("fedavg", records(0.1, 0.5, 0.8, 0.96)),
        ("feddc", records(0.5, 0.97, 0.9, 0.9)),
        ("bad", records(0.1, None)),
    ]
    fedavg, feddc, bad = compare(runs, 0.95, 4)
    assert (fedavg.rounds, fedavg.speedup, fedavg.megabytes) == ("4", "1.00×", "4.0")
    assert (feddc.best, feddc.rounds, feddc.speedup, feddc.megabytes) == ("97.00 %", "2", "2.00×", "2.0")
    assert (bad.rounds, bad.speedup, bad.megabytes) == (">4", "<1.00×", ">2.0")


def test_speedup_is_a_bound_where_a_run_is_censored() -> None:
    assert speedup(None, 50, 600) == ">12.00×"
    assert speedup(60, None, 600) == "<0.10×"
    assert speedup(None, None, 600) == "–"


def test_sparkline_is_of_bounded_length_and_monotone() -> None:
    line = sparkline(records(*[i / 100 for i in range(100)]), 0.0)
    assert len(line) == 16
    assert list(line) == sorted(line)
    assert sparkline(records(None), 0.0) == ""
