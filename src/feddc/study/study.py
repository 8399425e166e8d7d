"""The one unit of work: a list of cells with a folder and the command that made it.

`run` is a study of one cell, `compare` a column, `sweep` a product, `reproduce` what the paper lists; `resume` loads a
study and runs what is missing. A cell that has ended is read, one that was interrupted is continued, any other begins.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..engine import Record, Simulation
from ..engine.executors.choose import check_choice
from ..errors import ConfigError, FedDCError, RunError, check
from ..storage.atomic import PART, write_whole
from .cells import Cell, Number, expected_rounds, seconds_a_round
from .config import ROLES, Config, from_toml, group_key, result_digest
from .rundir import claim, to_stderr
from .runinfo import FORMAT, read_info, ready, status
from .runner import Outcome, execute, read_outcome
from .sources import Source, refuse_other
from .trackers import require_tensorboard

if TYPE_CHECKING:
    from .jobs import Processes


class Listener:
    """Told how a study goes; override what you need."""

    def on_start(self, cell: Cell, executor: str) -> None:
        """Before the first round of a cell, or the first after an interruption; ``executor`` says who computes."""

    def on_record(self, cell: Cell, record: Record) -> None:
        """After every round."""

    def on_end(self, cell: Cell, outcome: Outcome) -> None:
        """When a cell has ended; also for one that had ended before, whose ``on_start`` never came."""


@dataclass(frozen=True)
class Study:
    """Cells with a folder; ``run`` runs what has not ended, ``load`` reads what has."""

    kind: Literal["run", "compare", "study"]
    """A run has its folder for itself; the runs of a comparison are named by their labels, others by their settings."""
    cells: tuple[Cell, ...]
    folder: Path
    command: str = ""
    """What was typed to make it."""
    stem: str = ""
    """The name of a study's page and pictures."""
    report: str | None = None
    """The folder of the page that a study makes at its end."""
    _checked: set[object] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        places: dict[Path, Cell] = {}
        for cell in self.cells:
            twin = places.setdefault(self.place(cell), cell)
            same = f"{twin.row}, seed {twin.config.seed}, and {cell.row}, seed {cell.config.seed}"
            check(twin is cell, f"two of the runs are the same one: {same}")

    def place(self, cell: Cell) -> Path:
        """The run directory of a cell."""
        if self.kind == "run":
            return self.folder
        name = re.sub(r"[^A-Za-z0-9.=+-]+", "-", cell.row) if self.kind == "compare" else cell.key
        return self.folder / name

    def load(self, cell: Cell) -> Outcome | None:
        """The outcome of a cell that has ended, or None."""
        return read_outcome(self.place(cell)) if status(self.place(cell)) == "ended" else None

    def left(self, cells: Sequence[Cell]) -> list[Cell]:
        """Those of these cells that have not ended."""
        return [cell for cell in cells if status(self.place(cell)) != "ended"]

    def estimate(self, source: Source, cells: Sequence[Cell]) -> tuple[float, float]:
        """The seconds that these cells will take here, likely and at most, from a trial of each kind of cell."""
        seconds: dict[object, float] = {}
        likely = most = 0.0
        for cell in cells:
            kind = _kind(cell.config)
            if kind not in seconds:
                seconds[kind] = seconds_a_round(cell.config, source.simulation(_plain(cell.config)))
                self._checked.add(kind)
            likely += seconds[kind] * expected_rounds(cell)
            most += seconds[kind] * cell.config.rounds
        return likely, most

    def run(
        self,
        source: Source,
        listener: Listener,
        *,
        cells: Sequence[Cell] | None = None,
        fresh: bool = False,
        processes: Processes | None = None,
        tensorboard: bool = False,
    ) -> dict[Cell, Outcome]:
        """Run what has not ended, of all cells or of these; their outcomes, where one that diverged has its error.

        A mistake in any cell shows before the first one runs and anything is written. ``fresh`` refuses a folder that
        holds anything; cells are run side by side where there are ``processes`` for it.
        """
        cells = self.cells if cells is None else cells
        todo = self.left(cells)
        side_by_side = processes is not None and min(processes.jobs, len(todo)) > 1
        prepared = None if side_by_side or not todo else self._prepared(todo[0], source)
        self.check(source, todo)
        if tensorboard:
            require_tensorboard()
        if fresh:
            claim(self.folder)
        file = (
            self.save() if self.kind != "run" and source.named else None
        )  # from which `feddc resume` knows what is to run
        outcomes: dict[Cell, Outcome] = {}
        if processes is not None and side_by_side:
            from .jobs import run_side_by_side

            outcomes |= run_side_by_side(self, todo, source, listener, processes, tensorboard=tensorboard)
        for cell in cells:
            if cell not in outcomes:
                here = prepared if todo and cell is todo[0] else None
                outcomes[cell] = self.run_cell(cell, source, listener, prepared=here, tensorboard=tensorboard)
                listener.on_end(cell, outcomes[cell])
        if file is not None:
            file.unlink(missing_ok=True)
        return {cell: outcomes[cell] for cell in cells}

    def run_cell(
        self,
        cell: Cell,
        source: Source,
        listener: Listener,
        *,
        prepared: tuple[Simulation, bool] | None = None,
        tensorboard: bool = False,
    ) -> Outcome:
        """Finished? Read it; else prepare and execute."""
        place = self.place(cell)
        if status(place) == "ended":
            self._check_same(cell, source)
            return read_outcome(place)
        simulation, resume = prepared or self._prepared(cell, source)
        listener.on_start(cell, simulation.executor_reason)
        return execute(
            cell.config,
            simulation,
            place,
            lambda record: listener.on_record(cell, record),
            resume=resume,
            again=self.folder,
            given=source.given(cell.config),
            tensorboard=tensorboard,
        )

    def _prepared(self, cell: Cell, source: Source) -> tuple[Simulation, bool]:
        """The simulation of a cell, and whether there is something to continue."""
        self._check_same(cell, source)
        _move_old(self.place(cell))
        here, resume = ready(cell.config, self.place(cell))
        self._checked.add(_kind(cell.config))
        return source.simulation(here), resume

    def check(self, source: Source, cells: Sequence[Cell]) -> None:
        """Refuse a mistake in any of these cells; one simulation is made for every kind of cell."""
        for cell in cells:
            check_choice(cell.config)
            source.method(cell.config)
            if _kind(cell.config) not in self._checked:
                self._checked.add(_kind(cell.config))
                source.simulation(_plain(cell.config))

    def _check_same(self, cell: Cell, source: Source) -> None:
        """Refuse a directory that holds a run with other settings."""
        place = self.place(cell)
        if not (place / "run.json").is_file():
            return
        there = from_toml(place / "config.toml")
        if result_digest(there) != result_digest(cell.config):
            raise ConfigError(f"{place} holds a run with other settings: {_difference(there, cell.config)}")
        refuse_other(place, read_info(place).get("given", {}), source.given(cell.config))

    def save(self) -> Path:
        """Keep the study in its folder, which may hold several; the same one again is the same file."""
        content = {key: value for key, value in dataclasses.asdict(self).items() if key not in ("folder", "_checked")}
        text = json.dumps({"format": FORMAT, **content}, indent=1) + "\n"
        path = self.folder / f"plan-{hashlib.sha256(text.encode()).hexdigest()[:8]}.json"
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
        return path


def saved(folder: Path) -> list[Path]:
    """The files of the studies in a folder that are not done."""
    return sorted(folder.glob("plan-????????.json"))


def read_study(path: Path) -> Study:
    """The study that ``save`` kept in this file, or the run in this directory."""
    if path.is_dir():
        return Study("run", (Cell("", "", "", from_toml(path / "config.toml")),), path)
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("format") > FORMAT:
            raise RunError(f"{path} was made by a newer feddc: use that one")
        cells = tuple(_cell(each) for each in content.pop("cells"))
        return Study(cells=cells, folder=path.parent, **content)
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except RunError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError, FedDCError) as error:
        raise RunError(f"{path} is corrupted ({error}): repeat the command that made it") from None


def _cell(values: dict[str, Any]) -> Cell:
    config = Config(**values.pop("config"))
    published = tuple(None if each is None else Number(**each) for each in values.pop("published"))
    return Cell(config=config, targets=tuple(values.pop("targets")), published=published, **values)


def _kind(config: Config) -> object:
    """What cells have in common that are made from the same things: all but method and seeds."""
    return group_key(replace(config, method=""))


def _plain(config: Config) -> Config:
    """The configuration with an executor that costs nothing to make."""
    return replace(config, executor="in-process", workers=None, device="auto", ray_address=None)


def _move_old(place: Path) -> None:
    """An older feddc kept an unfinished cell under another name, and the oldest without checkpoints."""
    old = place.with_name(place.name + PART)
    if not old.is_dir() or place.exists():
        return
    if status(old) == "format 1":
        to_stderr(f"{old}: an older feddc left it without checkpoints, so it starts again from round 1")
        shutil.rmtree(old)
    else:
        old.rename(place)


def _difference(there: Config, here: Config) -> str:
    """The first setting in which two configurations differ, in words."""
    for name, role in ROLES.items():
        then, now = getattr(there, name), getattr(here, name)
        if then != now and role != "run":
            return f"{name} is {then!r} there and {now!r} here: choose another out, or remove it"
    return "choose another out, or remove it"
