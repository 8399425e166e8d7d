"""Reading runs for a report: from run directories, or folders of them; what cannot be compared is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..engine import Record
from ..errors import RunError
from ..study.config import Config, from_toml
from ..study.rundir import read_json, read_records

ALIKE = ("data", "split", "clients")
"""What runs must have in common to be compared."""


@dataclass(frozen=True)
class Run:
    """One run directory, whole or still being written."""

    path: Path
    config: Config
    records: tuple[Record, ...]
    status: str
    """finished, diverged, or unfinished: still running, or interrupted."""
    split: tuple[tuple[int, ...], ...] | None
    """Samples of each class at each client, or None where an older version did not write it."""


def collect(paths: Sequence[Path]) -> list[Run]:
    """The runs under these paths, in the order of the paths; each path is a run directory or a folder of them."""
    given = [(path, [read(each) for each in directories(path)]) for path in paths]
    for path, runs in given:
        if not any(run.records for run in runs):
            raise RunError(f"no run in {path} has finished a round yet")
    _check_comparable(given)
    unique = {run.path.resolve(): run for _, runs in given for run in runs if run.records}
    _check_same_split(list(unique.values()))
    return list(unique.values())


def read(path: Path) -> Run:
    """One run directory."""
    config, records = from_toml(path / "config.toml"), read_records(path / "records.jsonl")
    done, split = path / "summary.json", path / "split.json"
    status = str(read_json(done).get("status")) if done.exists() else "unfinished"
    counts = read_json(split)["counts"] if split.exists() else None
    return Run(path, config, records, status, None if counts is None else tuple(map(tuple, counts)))


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
        key = (*_alike(run), run.config.seed)
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
