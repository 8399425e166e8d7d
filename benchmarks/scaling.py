"""How time grows with cores, cohort, parameters and clients: one thing at a time, the others as in the FCN workload.

Seconds of a round of FedDC without evaluation, median of a few after one to warm up.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

import feddc
from feddc.engine.executors import usable_cores

from .measure import many_clients
from .workloads import images

COHORT, WIDTH = 15, 200
Points = list[tuple[float, float]]


def scaling(smoke: bool, say: Callable[[str], None]) -> dict[str, Points]:
    """Seconds of a round for each number of cores, clients in the cohort, parameters, and clients in the federation."""
    federation = images((784,), 4 if smoke else 100, 50 if smoke else 600, tests=10)
    cohorts, widths, counts = [5, 15, 50, 100], [50, 100, 200, 400, 800], [1_000, 10_000, 100_000, 1_000_000]
    cores, cohort, rounds, many = sorted({1, usable_cores()}), COHORT, 3, 200
    if smoke:
        cohorts, widths, counts = [1, 2], [4, 8], [60, 70]
        cores, cohort, rounds, many = [1], 2, 1, 2
    found: dict[str, Points] = {"cores": [], "cohort": [], "parameters": [], "clients": []}
    for count in cores:
        say(f"scaling: {count} cores")
        found["cores"].append((count, seconds(federation, WIDTH, cohort, rounds, count)[0]))
    for size in cohorts:
        say(f"scaling: cohort of {size}")
        found["cohort"].append((size, seconds(federation, WIDTH, size, rounds, cores[-1])[0]))
    for width in widths:
        say(f"scaling: width {width}")
        took, parameters = seconds(federation, width, cohort, rounds, cores[-1])
        found["parameters"].append((parameters, took))
    for count in counts:
        say(f"scaling: {count} clients")
        found["clients"].append((count, many_clients(count, many)["seconds"]))
    return found


def seconds(federation: feddc.Federation, width: int, cohort: int, rounds: int, cores: int) -> tuple[float, int]:
    """The median of so many rounds, and the number of parameters."""
    model = feddc.make_model(f"fcn:{width}:{width}", federation.shape, federation.classes)
    run = feddc.simulate(
        feddc.FedDC(),
        model,
        federation,
        rounds=rounds + 1,
        cohort_size=cohort,
        training=feddc.LocalTraining(epochs=1),
        executor="workers",
        workers=cores,
        evaluate_every=rounds + 1,
    )
    took = [record.seconds for record in run][1:]
    return statistics.median(took[:-1] or took), sum(each.numel() for each in model.parameters())


def rows(found: Mapping[str, Sequence[Sequence[float]]]) -> list[str]:
    """The lines of the table in docs/performance.md."""
    lines = ["| what grows | ms of a round |", "|---|---|"]
    for name, points in found.items():
        lines.append(f"| {name} {', '.join(f'{x:,.0f}' for x, _ in points)} | {', '.join(_ms(y) for _, y in points)} |")
    return lines


def draw(found: Mapping[str, Sequence[Sequence[float]]], file: Path) -> None:
    """One panel for each thing that grows; a dashed line shows what would be proportional to it."""
    figure = Figure(figsize=(9, 2.6), layout="constrained")
    panels: Any = figure.subplots(1, len(found))
    for axes, (name, points) in zip(panels, found.items(), strict=True):
        x, y = [point[0] for point in points], [1e3 * point[1] for point in points]
        axes.loglog(x, y, marker="o", label="measured")
        if name != "clients":
            power = -1 if name == "cores" else 1
            axes.loglog(x, [y[0] * (each / x[0]) ** power for each in x], "--", color="0.7", label="in proportion")
        axes.set(xlabel=name, ylim=(min(y) / 2, max(y) * 2))
        axes.set_xticks(x, [_count(each) for each in x])
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.minorticks_off()
    panels[0].set_ylabel("ms of a round")
    panels[0].legend(fontsize="small", loc="lower left")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150)


def _count(number: float) -> str:
    """A number of clients or parameters, short enough for an axis."""
    for size, sign in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.2g}{sign}" if number < 10 * size else f"{number / size:.0f}{sign}"
    return f"{number:g}"


def _ms(value: float) -> str:
    return f"{1e3 * value:.3g}"
