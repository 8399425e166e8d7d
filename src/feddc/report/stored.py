"""Results as small files that can be committed: what a table or a curve needs of every run, and nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, get_args

from ..errors import either
from ..storage.atomic import write_whole
from ..storage.lock import alone
from ..study.config import Config
from ..study.runinfo import reading
from .runs import Point, Run, Status, course

MADE = ("commit", "feddc", "torch", "processor")
"""Where a stored run comes from; the oldest name the commit that stored them, as 'at or before 35665e4'."""

WHAT = "is not a file of results"
SCORES = ("numbers or null", float, int, type(None))
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
    found = {}
    for key, packed in _read(path).items():
        with reading(path, f"{WHAT}: in {key}"):
            found[key] = _unpack(packed)
    return found


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
    unit, *times = _each("bytes", [moved["unit"], *moved["times"]], "whole numbers", int)
    totals = accumulate(each * unit for each in times)
    scores = _each("accuracy", packed["accuracy"], *SCORES)
    rounds = [
        Point(i, score, None, size, None) for i, (score, size) in enumerate(zip(scores, totals, strict=True), start=1)
    ]
    unsaid = {"batch_size": None, "clip_norm": None}  # older files leave out what is None
    made, clients = ({**_each(key, [packed.get(key, {})], "an object", dict)[0]} for key in ("made", "clients"))
    _each("made", made.values(), "texts", str)
    own = tuple(_each("scores", clients.pop("scores", []), *SCORES))
    _each("clients", clients.values(), *SCORES)
    config, status = Config(**(unsaid | packed["config"])), packed.get("status", "finished")
    if status not in get_args(Status):
        raise ValueError(f"status must be {either(get_args(Status))}, not {status!r}")
    return Run(config, course(rounds, status), status, about={"versions": made, "clients": clients}, clients=own)


def _each(what: str, values: Iterable[Any], noun: str, *kinds: type) -> list[Any]:
    """The values, if all are of these kinds; ``noun`` is what the kinds are called."""
    found = list(values)
    for value in found:
        if type(value) not in kinds:
            raise ValueError(f"{what} must be {noun}, not {value!r}")
    return found


def _read(path: Path) -> dict[str, dict[str, Any]]:
    with reading(path, WHAT):
        content = dict(json.loads(path.read_text(encoding="utf-8")))
        _each("a run", content.values(), "an object", dict)
    return content
