"""A run directory.

run.json            the format, the versions of what computes, whose arithmetic
config.toml         the whole configuration
split.json          how many samples of each class each client holds
records.jsonl       a line for each round
checkpoint/, lock   while the run is under way
preparation.json    what was done to the samples of a CSV file or image folder, and the names of its columns and classes
model.safetensors   the trained model
summary.json        the run in a few numbers; written last, so it says that the run has ended
undone-1.jsonl      what was taken back (``rollback.py``)
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_model
from torch import nn

from ..engine import Record, Simulation
from ..errors import RunError
from ..storage.atomic import PART, digest, replacing, sync, sync_folder, write_whole
from ..storage.lock import NAME as LOCK, Lock
from .checkpoint import Checkpoints, DamagedError
from .config import Config, result_digest, to_toml
from .interval import Interval
from .runinfo import FORMAT, read_info, reading, status, version_changes, versions

__all__ = ["RunDir", "claim", "read_json", "read_records", "to_stderr", "write_whole"]

RECORD_FIELDS = {"accuracy", "loss", *(field.name for field in dataclasses.fields(Record))}


class RunDir:
    """Writes a run as it goes, under a lock. Refuses a directory that holds anything, unless it is told to continue."""

    def __init__(
        self,
        path: Path,
        config: Config,
        simulation: Simulation,
        *,
        resume: bool = False,
        given: Mapping[str, str] | None = None,
    ) -> None:
        self.path, self.config, self.simulation = path, config, simulation
        if not resume:
            claim(path)
        try:
            self._lock = Lock(path)
        except OSError as error:
            raise RunError(f"cannot write to {path}: {error.strerror}") from None
        try:
            self.checkpoints = Checkpoints(path / "checkpoint", config.keep)
            self.interval = Interval(config.checkpoint)
            if not (path / "run.json").is_file():
                write_whole(path / "config.toml", to_toml(config))
                split = {"format": FORMAT, "counts": simulation.federation.label_counts().tolist()}
                write_whole(path / "split.json", json.dumps(split) + "\n")
                info = {"format": FORMAT, "arithmetic": simulation.arithmetic, "versions": versions()}
                info |= {"shape": list(simulation.federation.shape), "classes": simulation.federation.classes}
                info |= {"given": dict(given)} if given else {}
                info |= {"task": type(simulation.federation.task).__name__}
                if simulation.federation.preparation is not None:
                    kept = json.dumps(dataclasses.asdict(simulation.federation.preparation))
                    write_whole(path / "preparation.json", kept + "\n")
                write_whole(path / "run.json", json.dumps(info, indent=2) + "\n")
            self._records = (path / "records.jsonl").open("ab", buffering=0)
            self._digest, self._length = hashlib.sha256(), 0
        except BaseException:
            self._lock.release(remove=not resume)
            raise

    def __enter__(self) -> RunDir:
        return self

    def __exit__(self, *_: object) -> None:
        self._records.close()
        self._lock.release(remove=True)

    def restore(self, say: Callable[[str], None]) -> tuple[Record, ...]:
        """Put the simulation back to the last whole checkpoint; the records up to there. Says what it had to do."""
        info = read_info(self.path)
        self.simulation.undone = sum(each["from"] - each["to"] for each in info.get("rollbacks", []))
        if info.get("arithmetic") != self.simulation.arithmetic:
            raise RunError(
                f"{self.path} was begun with '{info.get('arithmetic')}' arithmetic, "
                f"but here it would continue with '{self.simulation.arithmetic}', which rounds differently"
            )
        manifest, faults = self.checkpoints.restore(self.simulation, self._check)
        for fault in faults:
            say(f"{self.path}: {fault}")
        if manifest is None:
            held = (self.path / "records.jsonl").stat().st_size
            self._truncate(0)
            if held:
                say(f"{self.path}: no checkpoint had been written, so it starts again from round 1")
            return ()
        self._truncate(manifest["records"]["bytes"])
        if changes := version_changes(manifest["versions"]):
            say(f"{self.path}: made with {changes}: the last bits may differ")
        say(f"{self.path}: continuing after round {manifest['round']}")
        return read_records(self.path / "records.jsonl")

    def add(self, record: Record) -> None:
        """Append one round."""
        line = (json.dumps(dataclasses.asdict(record)) + "\n").encode()
        if self._records.write(line) < len(line):  # half a line: the next attempt to continue cuts it off
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path / "records.jsonl"))
        self._digest.update(line)
        self._length += len(line)

    def checkpoint(self, say: Callable[[str], None], *, now: bool = False) -> None:
        """Write a checkpoint if one is due, or ``now``. A full disk is reported, and the run continues."""
        rounds = self.simulation.round - self.checkpoints.round
        size = self.checkpoints.bytes_to_write(self.simulation)
        if not rounds or not (now or self.interval.due(rounds, size)):
            return
        began = time.monotonic()
        try:
            sync(self._records)
            records = {"bytes": self._length, "sha256": self._digest.hexdigest()}
            about = {"config": result_digest(self.config), "records": records, "versions": versions()}
            self.checkpoints.write(self.simulation, about)
        except OSError as error:
            last = f"the last one is of round {self.checkpoints.round}" if self.checkpoints.round else "there is none"
            say(f"{self.path}: no checkpoint after round {self.simulation.round}: {error.strerror}; {last}")
        self.interval.took(time.monotonic() - began, size)

    @property
    def kept(self) -> int:
        """The round of the last checkpoint, 0 where there is none."""
        return self.checkpoints.round

    def costs(self) -> dict[str, Any]:
        """How many checkpoints this process wrote, and how long they took."""
        return {"checkpoints": self.interval.count, "checkpoint_seconds": round(self.interval.spent, 4)}

    def finish(self, summary: dict[str, Any], model: nn.Module | None) -> None:
        """Write the model and the summary. Without a model the run failed, and its last checkpoint is kept."""
        sync(self._records)
        self._records.close()
        if model is not None:
            with replacing(self.path / "model.safetensors", lasting=False) as part:
                try:
                    save_model(model, str(part))
                except SafetensorError as error:  # which is how it reports a full disk
                    raise OSError(errno.EIO, str(error), str(part)) from error
        write_whole(self.path / "summary.json", json.dumps({"format": FORMAT} | summary, indent=2) + "\n")
        if model is not None and not self.config.keep:
            shutil.rmtree(self.checkpoints.folder, ignore_errors=True)

    def _check(self, manifest: Mapping[str, Any]) -> None:
        try:
            config, records = manifest["config"], manifest["records"]
            length, sha256, _ = int(records["bytes"]), records["sha256"], manifest["versions"].items()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedError(f"its manifest is not one of a run: {error}") from None
        if config != result_digest(self.config):
            toml = self.path / "config.toml"
            raise RunError(f"{toml} was changed after the run began: put it back, or begin a new run")
        if digest(self.path / "records.jsonl", length) != sha256:
            raise DamagedError("records.jsonl is corrupted")

    def _truncate(self, length: int) -> None:
        """Drop what was recorded after the checkpoint: those rounds are run again."""
        os.truncate(self._records.fileno(), length)
        self._digest = hashlib.sha256((self.path / "records.jsonl").read_bytes())
        self._length = length


def claim(path: Path) -> None:
    """Make the directory, or refuse it if it holds anything but what a killed process leaves before it begins."""
    try:
        debris = {LOCK, f"config.toml{PART}"}
        if path.exists() and (not path.is_dir() or {each.name for each in path.iterdir()} - debris):
            held = "exists and is not empty"
            if (path / "records.jsonl").exists():
                going = status(path) == "under way"
                held = f"already holds a run{f' (`feddc resume {path}` continues it)' if going else ''}"
            raise RunError(f"{path} {held}: choose another --out; nothing was overwritten")
        path.mkdir(parents=True, exist_ok=True)
        sync_folder(path.parent)
    except OSError as error:
        raise RunError(f"cannot write to {path}: {error.strerror}") from None


def read_json(path: Path) -> dict[str, Any]:
    """``summary.json`` or ``split.json``, refused if a newer feddc wrote it."""
    with reading(path, "is not a JSON file"):
        content = json.loads(path.read_text(encoding="utf-8"))
    found = content.get("format") if isinstance(content, dict) else None
    if not isinstance(found, int) or found > FORMAT:
        raise RunError(f"{path} was written by another version of feddc: its format is {found}, not {FORMAT}")
    return dict(content)


def read_records(path: Path) -> tuple[Record, ...]:
    """The records of a run, as they were written."""
    records = []
    try:
        whole = path.read_text(encoding="utf-8").rpartition("\n")[0]  # a run under way may be writing its next line
        for line in whole.splitlines():
            values = json.loads(line)
            if not isinstance(values, dict):
                raise TypeError("it is not an object")
            if strange := set(values) - RECORD_FIELDS:
                raise RunError(f"{path} was written by another version of feddc: its records have '{min(strange)}'")
            records.append(Record.from_json(values))
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(f"{path} is not a file of records: line {len(records) + 1}: {error}") from None
    return tuple(records)


def to_stderr(sentence: str) -> None:
    """Where notes go that must be seen even with --quiet."""
    sys.stderr.write(f"feddc: {sentence}\n")
