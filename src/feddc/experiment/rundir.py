"""A run directory.

| file | written | holds |
|---|---|---|
| config.toml | at the start | the full configuration |
| split.json | at the start | how many samples of each class each client holds |
| records.jsonl | as it goes | a line per round |
| model.safetensors | at the end | the trained model |
| summary.json | last | the run in a few numbers; it says that the run is whole |
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any, TextIO

from torch import nn

from ..data import Federation
from ..engine import Drift, Record
from ..errors import RunError
from .config import FIELDS, Config, read_toml, to_toml, typed

FORMAT = 1
RECORD_FIELDS = {field.name for field in dataclasses.fields(Record)}


class RunDir:
    """Writes a run as it goes; refuses a directory that holds anything already."""

    def __init__(self, path: Path, config: Config, federation: Federation) -> None:
        claim(path)
        self.path = path
        write_whole(path / "config.toml", to_toml(config))
        split = {"format": FORMAT, "counts": federation.label_counts().tolist()}
        write_whole(path / "split.json", json.dumps(split) + "\n")
        self._records: TextIO = (path / "records.jsonl").open("w", encoding="utf-8")

    def add(self, record: Record) -> None:
        """Append one round."""
        self._records.write(json.dumps(dataclasses.asdict(record)) + "\n")
        self._records.flush()

    def finish(self, summary: dict[str, Any], model: nn.Module | None) -> None:
        """Write the model and the summary; the summary comes last and says that the run is whole."""
        from safetensors.torch import save_model

        self.close()
        if model is not None:
            part = self.path / "model.safetensors.part"
            save_model(model, str(part))
            part.replace(self.path / "model.safetensors")
        write_whole(self.path / "summary.json", json.dumps({"format": FORMAT} | summary, indent=2) + "\n")

    def close(self) -> None:
        self._records.close()


def claim(path: Path) -> None:
    """Make the directory, or refuse it if it holds anything."""
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            held = "already holds a run" if (path / "records.jsonl").exists() else "exists and is not empty"
            raise RunError(f"{path} {held}: choose another --out; nothing was overwritten")
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write to {path}: {error.strerror}") from None


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def read_config(path: Path) -> Config:
    """The configuration of a run, as it was written: nothing is filled in from the data set's usual settings."""
    return Config(**{key: typed(key, value) for key, value in read_toml(path, FIELDS).items()})


def read_json(path: Path) -> dict[str, Any]:
    """``summary.json`` or ``split.json``, refused if another version of feddc wrote it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise RunError(f"{path} is not a JSON file: {error}") from None
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
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
            drift = values.get("drift")
            values |= {"drift": None if drift is None else Drift.from_json(drift)}
            records.append(Record(**values | {"participants": tuple(values["participants"])}))
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is not a file of records: line {len(records) + 1}: {error}") from None
    return tuple(records)
