"""What a run directory says of how it was made: parameters, versions, machine, date."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from math import prod
from pathlib import Path

from .runs import Run

_BUFFERS = ("running_mean", "running_var", "num_batches_tracked")


def facts(runs: Sequence[Run]) -> dict[str, str]:
    """Each fact once; where runs differ in it, what they have, side by side."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for key, value in _facts(run).items():
            found.setdefault(key, []).append(value)
    shown = {key: list(dict.fromkeys(values)) for key, values in found.items()}
    dates = sorted(shown.pop("finished", []))
    if dates:
        shown["finished"] = [dates[0]] if dates[0] == dates[-1] else [f"{dates[0]} to {dates[-1]}"]
    return {key: "; ".join(values[:4]) + ("; …" if len(values) > 4 else "") for key, values in shown.items()}


def parameters(path: Path) -> int | None:
    """How many numbers a trained model has, without BatchNorm's statistics, from the head of its file."""
    try:
        with path.open("rb") as file:
            head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        return sum(prod(map(int, each["shape"])) for name, each in head.items() if _is_parameter(name))
    except (OSError, ValueError, KeyError, TypeError, MemoryError, OverflowError):
        return None  # no model yet, or one that diverged


def _facts(run: Run) -> dict[str, str]:
    found: dict[str, str] = {}
    if run.path is None:
        return found
    count = parameters(run.path / "model.safetensors")
    if count is not None:
        found["parameters"] = f"{count:,}"
    found |= {str(key): str(value) for key, value in dict(run.about.get("versions", {})).items()}
    found |= {key: str(run.about[key]) for key in ("executor", "arithmetic") if run.about.get(key)}
    done = run.path / "summary.json"
    if done.exists():
        found["finished"] = f"{datetime.fromtimestamp(done.stat().st_mtime, UTC):%Y-%m-%d %H:%M} UTC"
    return found


def _is_parameter(name: str) -> bool:
    return name != "__metadata__" and not name.endswith(_BUFFERS)
