"""Cells: runs of a study, each in a directory of its own, never run twice."""

from __future__ import annotations

import re
import shutil
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..data import Federation
from ..engine import Record, Simulation
from ..engine.executors.choose import check_choice, usable_cores
from ..engine.local import Start
from ..storage.atomic import PART, sync_folder
from ..types import Correction
from .config import Config, result_digest
from .rundir import read_records, to_stderr
from .runinfo import ready, status
from .runner import Outcome, execute, federation_of, prepare, read_outcome


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


def finished(cell: Cell, out: Path) -> tuple[Record, ...] | None:
    """The records of a cell that was run to its end, or None."""
    folder = out / cell.key
    return read_records(folder / "records.jsonl") if (folder / "summary.json").exists() else None


class Shared:
    """Federations, kept while consecutive cells use the same one."""

    def __init__(self, data_dir: Path | None) -> None:
        self.data_dir = data_dir
        self._key: tuple[object, ...] | None = None
        self._federation: Federation | None = None

    def federation(self, config: Config) -> Federation:
        """The federation of a configuration."""
        key = (config.data, config.clients, config.split, config.seed, config.holdout, config.validation)
        if key != self._key or self._federation is None:
            self._federation, self._key = None, key  # let go of the old one before the new one is loaded
            self._federation = federation_of(config, self.data_dir)
        return self._federation

    def prepare(self, config: Config) -> Simulation:
        """The simulation of a configuration."""
        return prepare(config, self.federation(config))


def run_cell(
    cell: Cell, shared: Shared, out: Path, on_record: Callable[[Record], None], *, tensorboard: bool = False
) -> Outcome:
    """Run a cell, or go on with one that was interrupted; its directory has its own name only when it is whole."""
    part = out / f"{cell.key}{PART}"
    if status(part) == "format 1":
        to_stderr(f"{part}: an older feddc left it without checkpoints, so it starts again from round 1")
        shutil.rmtree(part)
    if status(part) == "ended":  # only the last step is missing
        outcome = read_outcome(part)
    else:
        here, resume = ready(cell.config, part)
        simulation = shared.prepare(here)
        outcome = execute(cell.config, simulation, part, on_record, resume=resume, again=out, tensorboard=tensorboard)
    part.rename(out / cell.key)
    sync_folder(out)
    return outcome


def check_all(cells: Sequence[Cell], shared: Shared) -> None:
    """Refuse a mistake in any cell before the first one runs. Cells that differ only in seed are checked once."""
    seen = set()
    for cell in cells:
        check_choice(cell.config)
        config = replace(cell.config, seed=0, executor="in-process", workers=None, device="auto", ray_address=None)
        if config not in seen:
            seen.add(config)
            shared.prepare(replace(config, seed=cell.config.seed))


def seconds_a_round(config: Config, shared: Shared) -> float:
    """What a round takes here, from one local epoch of one client and one evaluation, spread over the cores in use."""
    simulation = shared.prepare(replace(config, epochs=1, executor="in-process", workers=None, ray_address=None))
    start = Start(1, simulation.server.model, simulation.buffers)
    timings = []
    for _ in range(2):  # the first warms up
        began = time.perf_counter()
        deque(simulation.executor.train([0], start, lambda _: Correction()), maxlen=0)
        trained = time.perf_counter()
        simulation.executor.measure(start, simulation.federation.blocks("test"))
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
