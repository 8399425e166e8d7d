"""Rounds taken back, after an attack was noticed: server and clients as they were, and other settings from there on.

A simulation is exact, so a round to which no checkpoint leads back is computed again from one before it. What is
changed applies from the first round that is run anew; the configuration says so (``robust = "median:from=9"``), and a
run that had it from its beginning would be the same one, to the last bit. What was taken back is kept aside:

    undone-1.jsonl          the records of those rounds
    undone-1.safetensors    the model that the run had ended with, if it had
    run.json                "rollbacks": from which round to which, and what was changed
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ..engine.guarding import keyed
from ..errors import ConfigError, RunError, check_count
from ..storage.atomic import write_whole
from ..storage.lock import Lock
from ..trust.guard import make_guard
from ..trust.privacy import Draws
from ..trust.window import Window, windowed
from .checkpoint import Checkpoints
from .config import Config, from_toml, result_digest, to_toml
from .rundir import read_records
from .runinfo import read_info, status

SAME: Final = "same"
"""Leaves a setting as it is."""


def roll_back(path: str | Path, rounds: int, *, robust: str | None = SAME, attack: str | None = SAME) -> Config:
    """Take back the last ``rounds`` rounds of a run; `feddc resume` or the same ``feddc.train`` then continues it.

    ``robust`` and ``attack`` are what is different from there on: a rule, or None for none; by default they stay, and
    the same rounds come again. Returns the configuration to continue with. Refuses more rounds than there are, and
    settings that do not go together, before anything is changed.
    """
    folder = Path(path)
    check_count("rollback", rounds)
    if status(folder) not in ("under way", "ended"):
        raise RunError(f"{folder} holds no run that can be taken back")
    info = read_info(folder)
    if info["arithmetic"] == "flower":
        raise RunError(f"{folder} is a federation's: flwr run . --run-config rollback={rounds} takes its rounds back")
    lock = Lock(folder)
    try:
        records = folder / "records.jsonl"
        ran = len(read_records(records))
        wanted = ran - rounds
        if wanted < 0:
            raise RunError(f"{folder} has run {ran} rounds, so {rounds} cannot be taken back")
        before = from_toml(folder / "config.toml")
        after = replace(
            before,
            robust=_changed("robust", before.robust, robust, wanted),
            attack=_changed("attack", before.attack, attack, wanted),
        )
        _check(after)
        undone: list[dict[str, Any]] = list(info.get("rollbacks", []))
        lines = records.read_text(encoding="utf-8").splitlines(keepends=True)
        name = f"undone-{len(undone) + 1}"
        write_whole(folder / f"{name}.jsonl", "".join(lines[wanted:ran]))
        changes = {key: [getattr(before, key), getattr(after, key)] for key in ("robust", "attack")}
        changes = {key: each for key, each in changes.items() if each[0] != each[1]}
        undone.append({"from": ran, "to": wanted, "records": f"{name}.jsonl", "changed": changes})
        write_whole(folder / "run.json", json.dumps(info | {"rollbacks": undone}, indent=2) + "\n")
        (folder / "summary.json").unlink(missing_ok=True)
        if (folder / "model.safetensors").exists():
            (folder / "model.safetensors").rename(folder / f"{name}.safetensors")
        checkpoints = Checkpoints(folder / "checkpoint", after.keep)
        checkpoints.drop_after(wanted)
        os.truncate(records, sum(len(line.encode()) for line in lines[:wanted]))
        checkpoints.rewrite({"config": result_digest(after)})
        write_whole(folder / "config.toml", to_toml(after))
    finally:
        lock.release(remove=True)
    return after


def _changed(what: str, old: str | None, new: str | None, wanted: int) -> str | None:
    """A setting that was ``old`` up to round ``wanted`` and is ``new`` after it."""
    if new == SAME:
        return old
    until = None
    if old is not None:
        name, window = windowed(old)
        if window.first <= wanted:
            last = wanted if window.last is None else min(window.last, wanted)
            until = Window(window.first, last).on(name)
    if new is None:
        return until
    if until is not None:
        raise ConfigError(f"{what} was {old} before round {wanted + 1}, and a run has one: take back more rounds")
    name, window = windowed(new)
    return Window(max(window.first, wanted + 1), window.last).on(name)


def _check(config: Config) -> None:
    """Refuse a rule or an attack that is none, or does not go together with what is there."""
    everyone = Draws(config.clients, config.clients, random=False, fixed=False)
    make_guard(keyed(0), everyone, config.rounds, robust=config.robust, attack=config.attack, secure=config.secure)
