"""The command: measure, print a table, and write JSON if asked."""

from __future__ import annotations

import argparse
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from feddc.engine.executors import usable_cores

from . import __doc__ as usage
from .floor import Machine
from .measure import FLOOR, HALF, PLAIN, Row, Spread, as_json, label, large_state, many_clients, measure, start_up
from .scaling import draw, rows as rows_of_scaling, scaling
from .workloads import WORKLOADS

MANY, LARGE, START, SCALING = "many", "large", "start", "scaling"
PICTURE = Path("docs/images/scaling.png")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("benchmarks", description=usage, formatter_class=argparse.RawTextHelpFormatter)
    names = [*WORKLOADS, MANY, LARGE, START, SCALING]
    parser.add_argument("workload", nargs="*", help=f"some of {', '.join(names)}; all if none is given")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each, for the median (default 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the numbers")
    parser.add_argument("--picture", type=Path, metavar="FILE", default=PICTURE, help=f"of scaling (default {PICTURE})")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, to see that it runs")
    options = parser.parse_args(arguments)
    unknown = set(options.workload) - set(names)
    if unknown or options.repeats < 1:
        parser.error(f"no workload '{unknown.pop()}'" if unknown else "--repeats must be 1 or more")
    chosen = options.workload or names

    console = Console()
    machine = Machine(1 if options.smoke else usable_cores())
    results: dict[str, Any] = {
        "machine": _machine(),
        "load": [_load()],
        "repeats": options.repeats,
        "rows": [],
        "many": [],
        "large": [],
    }
    with console.status("starting") as status:
        for name in chosen:
            if name in WORKLOADS:
                rows = measure(name, options.repeats, options.smoke, machine, status.update)
                results["rows"] += as_json(rows)
                console.print(_table(name, rows))
        if MANY in chosen:
            counts, rounds = ((60,), 3) if options.smoke else ((1_000, 10_000, 100_000, 1_000_000), 200)
            for count in counts:
                status.update(f"{MANY}: {count} clients")
                results["many"].append(many_clients(count, rounds))
            console.print(_many_table(results["many"]))
        if LARGE in chosen:
            for executor in ("in-process", "workers"):
                status.update(f"{LARGE}: {executor}")
                results["large"].append(large_state(executor, 6 if options.smoke else 500))
            console.print(_large_table(results["large"]))
        if START in chosen:
            status.update(START)
            spread = start_up("workers", options.repeats)
            results["start"] = asdict(spread)
            console.print(f"feddc run, one round with workers, from start to end: {_seconds(spread)}")
        if SCALING in chosen:
            results["scaling"] = scaling(options.smoke, status.update)
            console.print("\n".join(rows_of_scaling(results["scaling"])), markup=False, soft_wrap=True)
            draw(results["scaling"], options.picture)
    machine.close()
    results["load"].append(_load())
    console.print("load average at the start and at the end: {:.1f}, {:.1f}".format(*results["load"]))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
        console.print(f"written to {options.json}")


def _load() -> float:
    """The one-minute load average: far above 0 at the start, other work took part of the cores."""
    return os.getloadavg()[0]


def _machine() -> str:
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    return f"{usable_cores()} cores, {platform.machine()}, {versions}"


def _table(name: str, rows: list[Row]) -> Table:
    table = Table(title=(WORKLOADS[name].__doc__ or "").rstrip("."), title_justify="left")
    columns = ("", "ms per local step", "over the plain loop", "of the floor", "evaluation", "rest of the round", "MB")
    for column in columns:
        table.add_column(column, justify="right" if column else "left")
    slow = min(row.step.median for row in rows if row.contestant.startswith(PLAIN))
    floors = {row.contestant: row.step.median for row in rows if row.contestant.startswith(FLOOR)}
    for row in rows:
        step = row.step
        table.add_row(
            row.contestant,
            f"{step.median * 1e3:.4g} ({step.least * 1e3:.4g}–{step.most * 1e3:.4g})",
            f"{slow / step.median:.3g}×",
            f"{step.median / floors[label(FLOOR, 'bf16' if row.contestant.endswith(HALF) else 'float32')]:.2f}×",
            _percent(row.evaluation),
            _percent(row.rest),
            "" if row.memory is None else f"{row.memory:.0f}",
        )
    return table


def _percent(part: Spread | None) -> str:
    return "" if part is None else f"{part.median:.1%}"


def _many_table(results: list[dict[str, Any]]) -> Table:
    table = Table(title="155 parameters, 50 clients a round, 10 steps each", title_justify="left")
    for column in ("clients", "ms per round", "", "MB beyond the data"):
        table.add_column(column, justify="right")
    for result in results:
        ratio = result["seconds"] / results[0]["seconds"]
        table.add_row(
            f"{result['clients']}", f"{result['seconds'] * 1e3:.3g}", f"{ratio:.2f}×", f"{result['megabytes']:.0f}"
        )
    return table


def _large_table(results: list[dict[str, Any]]) -> Table:
    table = Table(title="The CIFAR CNN, FedDC, every client in every round", title_justify="left")
    for column in ("clients", "executor", "GB of state", "MB anonymous, parent", "each worker"):
        table.add_column(column, justify="right")
    for each in results:
        parent, worker = f"{each['parent']:.0f}", f"{each['worker']:.0f}" if each["worker"] else ""
        table.add_row(f"{each['clients']}", each["executor"], f"{each['state'] / 1e3:.2f}", parent, worker)
    return table


def _seconds(spread: Spread) -> str:
    return f"{spread.median:.2f} s ({spread.least:.2f}–{spread.most:.2f})"


if __name__ == "__main__":
    main()
