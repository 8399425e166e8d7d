"""Cells: the runs of a study."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..engine import Simulation
from ..engine.executors import InProcess
from ..engine.executors.choose import usable_cores
from ..engine.local.kernel import Start
from ..specs import Spec
from ..types import Correction
from .config import Config, result_digest


@dataclass(frozen=True)
class Number:
    """A published number: rounds, or an accuracy in percent. ``censored`` rounds were not enough."""

    value: float
    censored: bool = False

    def __str__(self) -> str:
        return f"{'>' if self.censored else ''}{self.value:g}"


@dataclass(frozen=True)
class Cell:
    """One run and its place: a table (``group``), and a ``row`` and ``column`` of it; seeds share a place."""

    group: str
    row: str
    column: str
    config: Config
    targets: tuple[float, ...] = ()
    """The accuracies whose rounds are asked for; empty where the best accuracy is."""
    published: tuple[Number | None, ...] = ()
    """The published number for each target, or for the best accuracy."""

    @property
    def key(self) -> str:
        """A directory name that changes with every setting that changes the result."""
        config = self.config
        words = f"{config.data}-{config.split or 'own'}-{config.clients}-{config.method}-s{config.seed}"
        return f"{re.sub(r'[^A-Za-z0-9.=+-]+', '_', words)}-{result_digest(config)[:8]}"


def labels(configs: Sequence[Config]) -> list[str]:
    """What the runs of a comparison are called: the method's name, or its whole text where a name occurs twice."""
    specs = [Spec.parse(config.method) for config in configs]
    names = [spec.label for spec in specs]
    return [name if names.count(name) == 1 else str(spec) for name, spec in zip(names, specs, strict=True)]


def seconds_a_round(config: Config, simulation: Simulation) -> float:
    """What a round takes here, from one local epoch of one client and one evaluation, spread over the cores in use."""
    job = replace(simulation.job, training=replace(simulation.training, epochs=1))
    executor, start = InProcess(job), Start(1, simulation.server.model, simulation.buffers)
    timings = []
    for _ in range(2):  # the first warms up
        began = time.perf_counter()
        deque(executor.train([0], start, lambda _: Correction()), maxlen=0)
        trained = time.perf_counter()
        executor.measure(start, simulation.federation.blocks("test"))
        timings.append((trained - began, time.perf_counter() - trained))
    epoch, evaluation = timings[-1]
    work = epoch * config.epochs * simulation.cohorts.mean_size + evaluation / config.evaluate_every
    return work / (config.workers or usable_cores())


def expected_rounds(cell: Cell) -> float:
    """How many rounds a cell will need: what the paper needed, where it stops early, or all of them."""
    known = cell.published[-1] if cell.published else None
    if cell.config.stop_at is None or known is None or known.censored:
        return cell.config.rounds
    return min(known.value, cell.config.rounds)
