"""The rows of docs/performance.md from stored measurements: ``python -m benchmarks.targets results.json …``

The files are what ``python -m benchmarks … --json FILE`` wrote; rows of workloads that none of them has are left out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .measure import BARE, FLOOR, HALF, PEER, PLAIN

Steps = dict[str, dict[str, dict[str, Any]]]
"""By workload and contestant, a row of the benchmark."""


def main(files: list[str]) -> None:
    results = [json.loads(Path(file).read_text()) for file in files]
    rows: Steps = {}
    for row in (row for result in results for row in result["rows"]):
        rows.setdefault(row["workload"], {})[row["contestant"]] = row
    many = [each for result in results for each in result["many"]]
    print("| workload | float32: target | measured | bf16: target | measured |\n|---|---|---|---|---|")
    for line in (*targets(rows), *growth(many)):
        print(line)
    print("\n| ms a local step | " + " | ".join(rows) + " |\n|---|" + "---:|" * len(rows))
    for name in dict.fromkeys(name for each in rows.values() for name in each):
        print(f"| {name} | " + " | ".join(_cell(each.get(name)) for each in rows.values()) + " |")
    print("| evaluation; rest of the round | " + " | ".join(map(_shares, rows.values())) + " |")
    print("\n| MB, all processes | " + " | ".join(rows) + " |\n|---|" + "---:|" * len(rows))
    for name in dict.fromkeys(row["contestant"] for each in rows.values() for row in _ours(each)):
        print(f"| {name} | " + " | ".join(_memory(each.get(name)) for each in rows.values()) + " |")


def targets(rows: Steps) -> Iterator[str]:
    """One line for each target whose workload was measured, in float32 and in bf16; medians of one run."""

    def ratio(workload: str, over: str, ours: str) -> float:
        found = rows.get(workload, {})
        slow, fast = _step(found.get(over)), _step(found.get(ours))
        return slow / fast if fast else 0.0

    def line(what: str, wanted: tuple[str, str], found: tuple[float, float]) -> Iterator[str]:
        measured = [f"{value:.2f}" if value else "" for value in found]
        if any(found):
            yield f"| {what} | {wanted[0]} | {measured[0]} | {wanted[1]} | {measured[1]} |"

    def both(what: str, wanted: tuple[str, str], workload: str, over: str, ours: str) -> Iterator[str]:
        yield from line(what, wanted, (ratio(workload, over, ours), ratio(workload, over, ours + HALF)))

    authors, one, two = f"{PLAIN}, 2 threads", f"{BARE}, 1 thread", f"{BARE}, 2 threads"
    yield from both("CNN, over the authors'-style loop on two threads", ("≥ 1.6", "≥ 2.7"), "cnn", authors, "workers")
    floors = ratio("cnn", "workers", FLOOR), ratio("cnn", "workers" + HALF, FLOOR + HALF)
    yield from line("CNN, over its floor", ("≤ 1.25", "≤ 1.4"), floors)
    fcn = rows.get("fcn", {})
    rounds = [_round(fcn.get(ours)) for ours in ("workers", "workers" + HALF)]
    whole = [_step(fcn.get(one)) / each if each else 0.0 for each in rounds]
    yield from line("FCN, whole round over a bare one-thread loop", ("≥ 2.7", "≥ 3.3"), (whole[0], whole[1]))
    yield from both("FCN, training only, over fedjax jit", ("≥ 1.4", "≥ 1.9"), "fcn", PEER, "workers")
    alone = ratio("synthetic", PEER, "vectorised")
    yield from line("logistic regression over fedjax jit", ("≥ 7; all cores ≥ 12", "–"), (alone, 0.0))
    for loop, name in ((authors, "the authors'-style loop"), (two, "a bare loop")):
        what = f"ResNet18, 32 pixels, over {name} on two threads"
        yield from both(what, ("≥ 1.3", "≥ 2.0"), "resnet32", loop, "workers")
    for ours in ("workers", "workers, evaluation bf16", "workers" + HALF):
        if ours in fcn:
            yield f"| FCN, evaluation as part of a round, {ours} | ≤ 5 % | {fcn[ours]['evaluation']['median']:.1%} |"


def growth(many: list[dict[str, Any]]) -> Iterator[str]:
    """How a round grows from the fewest clients to the most."""
    if len(many) > 1:
        first, last = many[0], many[-1]
        more, time = last["megabytes"] - first["megabytes"], last["seconds"] / first["seconds"]
        what = f"{first['clients']:,} → {last['clients']:,} clients, same cohort"
        yield f"| {what} | < 1.3 ×, < 200 MB more | {time:.2f} ×, {more:.0f} MB more |"


def _step(row: dict[str, Any] | None) -> float:
    return 0.0 if row is None else float(row["step"]["median"])


def _round(row: dict[str, Any] | None) -> float:
    """A whole round, evaluated every time, divided by its local steps."""
    return 0.0 if row is None else _step(row) / (1 - row["evaluation"]["median"] - row["rest"]["median"])


def _cell(row: dict[str, Any] | None) -> str:
    return "" if row is None else f"{1e3 * _step(row):.3g}"


def _ours(found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in found.values() if row["evaluation"] is not None]


def _shares(found: dict[str, dict[str, Any]]) -> str:
    last = [row for row in _ours(found) if "bf16" not in row["contestant"]][-1]
    return f"{last['evaluation']['median']:.1%}; {last['rest']['median']:.1%}"


def _memory(row: dict[str, Any] | None) -> str:
    return "" if row is None else f"{row['memory']:.0f}"


if __name__ == "__main__":
    main(sys.argv[1:])
