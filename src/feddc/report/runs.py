"""Runs as the report reads them: from run directories, from runs in memory, or (stored.py) from files of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from ..engine import Record
from ..engine.records import score_in
from ..errors import RunError
from ..study.config import Config, from_toml, seed_key
from ..study.rundir import read_json, read_records
from ..study.runner import Outcome
from .numbers.measure import ACCURACY, Measure

ALIKE = ("data", "split", "clients")
"""What runs must have in common to be compared."""
LAST = 10
"""How many evaluations 'last' is the mean of."""
Repeat: TypeAlias = tuple[object, ...]
Status: TypeAlias = Literal["finished", "diverged", "unfinished", "not run"]


@dataclass(frozen=True)
class Point:
    """One round, as far as every source of runs knows it."""

    round: int
    score: float | None
    loss: float | None
    moved: int
    """Bytes so far, both directions, all clients together."""
    seconds: float | None
    """Seconds so far; None where only results were stored."""


START = Point(0, None, None, 0, None)
"""Before the first round."""


@dataclass(frozen=True)
class Run:
    """One run: whole, still being written, or planned and not run."""

    config: Config
    points: tuple[Point, ...]
    """Its rounds; see ``course``."""
    status: Status
    """unfinished: still running, or interrupted."""
    path: Path | None = None
    """Its directory; None where it has none."""
    records: tuple[Record, ...] = ()
    """What only run directories hold: who took part, drift, scores of single clients."""
    split: tuple[tuple[int, ...], ...] | None = None
    """Samples of each class at each client, or None where an older version did not write it."""
    about: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What the directory says of versions, machine and date; what a file of results says of single clients."""
    measure: Measure = ACCURACY
    clients: tuple[float | None, ...] = ()
    """Each client's score in the last round that scored them; empty where nothing is known of single clients."""

    @property
    def repeat(self) -> Repeat:
        """Which repetition of its experiment it is."""
        return seed_key(self.config)

    @property
    def done(self) -> int:
        """How many rounds it has run."""
        return self.points[-1].round if self.points else 0

    @property
    def ended(self) -> bool:
        return self.status in ("finished", "diverged")

    @property
    def scores(self) -> list[float]:
        """The score of every evaluated round."""
        return [point.score for point in self.points if point.score is not None]

    def best(self) -> float | None:
        return self.measure.best(self.scores)

    def last(self) -> float | None:
        """The mean of the last evaluations: what the best one alone would flatter."""
        values = self.scores[-LAST:]
        return sum(values) / len(values) if values else None

    def reach(self, target: float) -> Point | None:
        """The first round whose score reaches the target."""
        found = (p for p in self.points if p.score is not None and self.measure.reached(p.score, target))
        return next(found, None)

    def of_clients(self, part: Literal["mean", "worst"]) -> float | None:
        """Over single clients, in the last round that scored them: the mean, or the mean of the worst tenth."""
        found = (record.clients for record in reversed(self.records) if record.clients is not None)
        scores = next(found, None)
        stored: Mapping[str, float] = self.about.get("clients", {})
        return stored.get(part) if scores is None else float(getattr(scores, part))

    @property
    def epsilon(self) -> float | None:
        """What was spent of the privacy budget; None without one."""
        return self.records[-1].epsilon if self.records else None

    @property
    def bound(self) -> int:
        """The rounds within which a target that was not reached is known not to be. A run that diverged never will."""
        return self.config.rounds if self.status == "diverged" else self.done


def course(rounds: Sequence[Point], status: Status) -> tuple[Point, ...]:
    """The points of a run with these rounds. One that diverged in its first round has none, and is still a run that
    has ended, not one that nobody ran: it has its start."""
    return tuple(rounds) or ((START,) if status == "diverged" else ())


def of_records(config: Config, records: Sequence[Record], status: Status, **more: Any) -> Run:
    """A run from its records."""
    moved = accumulate(record.bytes_up + record.bytes_down for record in records)
    seconds = accumulate(record.seconds for record in records)
    rounds = [
        Point(record.round, record.value, record.loss, size, spent)
        for record, size, spent in zip(records, moved, seconds, strict=True)
    ]
    score = score_in(records)
    measure = Measure(score.name, score.higher_is_better)
    scored = next((record.clients.scores for record in reversed(records) if record.clients is not None), ())
    points = course(rounds, status)
    return Run(config, points, status, records=tuple(records), measure=measure, clients=tuple(scored), **more)


def of_outcome(outcome: Outcome) -> Run:
    """A run that has just ended."""
    return of_records(outcome.config, outcome.records, "diverged" if outcome.error else "finished")


def not_run(config: Config) -> Run:
    """A run that was planned and has no result."""
    return Run(config, (), "not run")


def read(path: Path) -> Run:
    """One run directory."""
    config, records = from_toml(path / "config.toml"), read_records(path / "records.jsonl")
    done, split, info = path / "summary.json", path / "split.json", path / "run.json"
    summary = read_json(done) if done.exists() else {}
    status = cast(Status, str(summary.get("status", "finished"))) if summary else "unfinished"
    counts = read_json(split)["counts"] if split.exists() else None
    about = {**(read_json(info) if info.exists() else {}), **summary}
    return of_records(
        config, records, status, path=path, split=None if counts is None else tuple(map(tuple, counts)), about=about
    )


def collect(paths: Sequence[Path]) -> list[Run]:
    """The runs under these paths that have finished a round, in the order of the paths.

    Each path is a run directory or a folder of them.
    """
    given = [(path, [read(each) for each in directories(path)]) for path in paths]
    for path, runs in given:
        if not any(run.done for run in runs):
            raise RunError(f"no run in {path} has finished a round yet")
    _check_comparable(given)
    unique = {run.path.resolve(): run for _, runs in given for run in runs if run.done and run.path}
    _check_same_split(list(unique.values()))
    return list(unique.values())


def directories(path: Path) -> list[Path]:
    """The run directories at or below ``path``: a run, a comparison or study, or a folder of those."""
    if not path.is_dir():
        raise RunError(f"{path} is not a folder" if path.exists() else f"there is no folder {path}")
    for pattern in ("config.toml", "*/config.toml", "*/*/config.toml"):
        found = sorted(file.parent for file in path.glob(pattern) if (file.parent / "records.jsonl").exists())
        if found:
            return found
    held = "it is empty" if not any(path.iterdir()) else "none of its folders has config.toml and records.jsonl"
    raise RunError(f"{path} holds no runs of feddc: {held}")


def _check_comparable(given: Sequence[tuple[Path, Sequence[Run]]]) -> None:
    """Paths named side by side are meant to be compared. One folder may hold several settings: a study does."""
    first, runs = given[0]
    settings = {_alike(run) for run in runs}
    for path, others in given[1:]:
        if settings.isdisjoint(_alike(run) for run in others):
            one, two = runs[0].config, others[0].config
            key = next(key for key in ALIKE if getattr(one, key) != getattr(two, key))
            raise RunError(
                f"{first} and {path} cannot be compared: {key} is {_shown(getattr(one, key))} in the first and "
                f"{_shown(getattr(two, key))} in the second"
            )


def _check_same_split(runs: Sequence[Run]) -> None:
    """The same settings and seed must have dealt the same samples: own data may have changed between runs."""
    known: dict[object, Run] = {}
    for run in runs:
        key = (*_alike(run), run.repeat)
        other = known.setdefault(key, run)
        if None not in (run.split, other.split) and run.split != other.split:
            raise RunError(
                f"{other.path} and {run.path} cannot be compared: both say {run.config.data}, "
                f"{_shown(run.config.split)}, seed {run.config.seed}, but their clients hold different samples"
            )


def _alike(run: Run) -> tuple[object, ...]:
    return tuple(getattr(run.config, key) for key in ALIKE)


def _shown(value: object) -> str:
    return "not given" if value is None else f"'{value}'" if isinstance(value, str) else str(value)
