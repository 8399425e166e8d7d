"""Run directories made by hand, so that a test of the report need not train anything."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from feddc.engine import Drift, Record
from feddc.study.config import resolve, to_toml

CLIENTS, CLASSES = 6, 4
# How fast each method learns, and the vectors that it moves.
SPEED = {"fedavg": (0.1, 1), "scaffold": (0.16, 2), "feddyn": (0.16, 1), "feddc": (0.25, 2)}


def write_run(
    path: Path,
    *,
    rounds: int = 20,
    done: int | None = None,
    drift: bool = True,
    scores: Sequence[float] | None = None,
    status: str = "finished",
    **options: object,
) -> Path:
    """A run directory as `feddc run` leaves it, with made-up records; ``done`` rounds of it if it is unfinished.

    ``scores`` are its accuracies, and its number of rounds unless it is unfinished.
    """
    if scores is not None:
        rounds, done = rounds if done is not None else len(scores), done and len(scores)
    config = resolve({"clients": CLIENTS, "rounds": rounds, "target": 0.9, "method": "feddc", **options})
    rng = np.random.default_rng([config.seed, len(config.method)])
    cohorts = np.random.default_rng(config.seed)  # the same for every method
    name = config.method.partition(":")[0]
    speed, vectors = SPEED.get(name, (0.12, 1))
    path.mkdir(parents=True)
    (path / "config.toml").write_text(to_toml(config))
    counts = np.random.default_rng(config.seed).integers(0, 30, size=(CLIENTS, CLASSES)).tolist()
    (path / "split.json").write_text(json.dumps({"format": 1, "counts": counts}))
    records = []
    for i in range(1, (done or rounds) + 1):
        accuracy = 0.97 - 0.9 * float(np.exp(-speed * i)) - 0.004 * float(rng.random())
        accuracy = accuracy if scores is None else scores[i - 1]
        who = tuple(int(each) for each in np.flatnonzero(cohorts.random(CLIENTS) < 0.5)) or (0,)
        size = tuple(float(each) for each in 1 + rng.random(len(who)))
        held = size if "fedd" in name else None
        measured = Drift(size, size, held, 0.2 if len(who) > 1 else None) if drift else None
        moved = 1000 * vectors * len(who)
        records.append(Record(i, {"accuracy": accuracy, "loss": 2.3 / i}, who, moved, moved, 0.01, drift=measured))
    text = "".join(json.dumps(dataclasses.asdict(record)) + "\n" for record in records)
    (path / "records.jsonl").write_text(text)
    if done is None:
        (path / "summary.json").write_text(json.dumps({"format": 1, "status": status}))
    return path


def write_comparison(path: Path, methods: tuple[str, ...] = ("fedavg", "feddyn", "feddc"), **options: object) -> Path:
    """What `feddc compare` leaves."""
    for method in methods:
        write_run(path / method.replace(":", "-"), method=method, **options)  # type: ignore[arg-type]
    return path


def write_seeds(path: Path, method: str, seeds: Sequence[Sequence[float]], **options: object) -> None:
    """A run for each seed, with these accuracies."""
    for seed, scores in enumerate(seeds):
        write_run(path / f"{method.replace(':', '-')}-{seed}", method=method, seed=seed, scores=scores, **options)  # type: ignore[arg-type]


def reaching(rounds: int, of: int, target: float = 0.9) -> list[float]:
    """Accuracies of a run that reaches the target in that round, or not at all if there are fewer."""
    return [target + 0.01 if i >= rounds else 0.5 for i in range(1, of + 1)]
