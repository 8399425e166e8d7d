"""Results as small files that can be committed: what a table or a curve needs of every run, and nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from ..errors import RunError
from ..storage.atomic import write_whole
from ..storage.lock import alone
from ..study.config import Config
from ..study.runinfo import reading
from .runs import Point, Run, course

MADE = ("commit", "feddc", "torch", "processor")
"""Where a stored run comes from; the oldest name the commit that stored them, as 'at or before 35665e4'."""

WHAT = "is not a file of results"
FEW = 20
"""The scores of single clients are stored where there are no more than so many, such as hospitals."""


def save(path: Path, runs: Mapping[str, Run]) -> None:
    """Write runs under their keys, added to what the file has already; a run with a key that it has is replaced."""
    with alone(path):
        content: dict[str, Any] = _read(path) if path.exists() else {}
        content |= {key: _pack(run) for key, run in runs.items()}
        lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(content[key])}" for key in sorted(content))
        write_whole(path, "{\n" + lines + "\n}\n")


def load(path: Path) -> dict[str, Run]:
    """The runs that the file has, by their keys."""
    content = _read(path)
    with reading(path, WHAT):
        return {key: _unpack(packed) for key, packed in content.items()}


def _pack(run: Run) -> dict[str, Any]:
    rounds = [point for point in run.points if point.round]
    return {
        "config": asdict(run.config),
        "status": run.status,
        "made": {key: value for key in MADE if (value := run.about.get("versions", {}).get(key)) is not None},
        "accuracy": [None if point.score is None else round(point.score, 5) for point in rounds],
        "bytes": _counted([after - before for before, after in pairwise([0, *(point.moved for point in rounds)])]),
    } | ({"clients": clients} if (clients := _clients(run)) else {})


def _counted(moved: Sequence[int]) -> dict[str, Any]:
    """The bytes of every round, exactly and in short numbers: as multiples of the largest unit that divides them all.

    Where clients send vectors as they are, these are small multiples of what one client moves.
    """
    unit = math.gcd(*moved) or 1
    return {"unit": unit, "times": [each // unit for each in moved]}


def _clients(run: Run) -> dict[str, Any]:
    """What the table says of single clients, where they were scored; and each one's score, where they are few."""
    found = {"mean": run.of_clients("mean"), "worst": run.of_clients("worst")}
    known: dict[str, Any] = {part: round(score, 5) for part, score in found.items() if score is not None}
    return known | ({"scores": list(run.clients)} if 0 < len(run.clients) <= FEW else {})


def _unpack(packed: Mapping[str, Any]) -> Run:
    moved = packed.get("bytes") or {"unit": 1000, "times": packed["kilobytes"]}  # older files are rounded
    totals = accumulate(each * moved["unit"] for each in moved["times"])
    rounds = [
        Point(i, score, None, size, None)
        for i, (score, size) in enumerate(zip(packed["accuracy"], totals, strict=True), start=1)
    ]
    unsaid = {"batch_size": None, "clip_norm": None}  # older files leave out what is None
    clients = packed.get("clients", {})
    about = {"versions": packed.get("made", {}), "clients": clients}
    config, status = Config(**(unsaid | packed["config"])), packed.get("status", "finished")
    return Run(config, course(rounds, status), status, about=about, clients=tuple(clients.get("scores", ())))


def _read(path: Path) -> dict[str, Any]:
    with reading(path, WHAT):
        content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise RunError(f"{path} {WHAT}")
    return content
