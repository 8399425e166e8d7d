"""Kill runs with SIGKILL at random moments, continue them, and compare them bit for bit with one that was left alone.

Children are forked from a process that has imported everything, so that a kill costs milliseconds instead of the
seconds that importing torch takes. To the file system a child is a process like any other.
"""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from feddc.algorithms import METHODS
from feddc.cli import main
from feddc.study.rundir import read_records
from feddc.study.runinfo import status

SETTING = "--rounds 12 --clients 8 --epochs 1 --batch-size 32 --model fcn:16 --cohort-size 3 --quiet"
EXECUTORS = {"in-process": [], "vectorised": [], "workers": ["--workers", "2"]}


@dataclass
class Tally:
    """What was done and seen."""

    runs: int = 0
    kills: int = 0
    in_checkpoint: int = 0
    """Kills that left a checkpoint half-written."""
    resumes: int = 0
    different: int = 0
    faults: int = 0
    """Processes that ended otherwise than by being killed or by finishing."""


def kill_runs(runs: int, kills: int, folder: Path, seed: int, executors: Sequence[str]) -> Tally:
    """So many runs, over all methods and executors in turn, each killed up to ``kills`` times before it may finish."""
    _warm_up()
    rng, tally = random.Random(seed), Tally()
    settings = [(method, executor) for executor in executors for method in METHODS]
    for _ in range(runs):
        method, executor = settings[tally.runs % len(settings)]
        command = ["run", "--method", method, "--executor", executor, *EXECUTORS[executor], *SETTING.split()]
        command += ["--seed", str(tally.runs), "--checkpoint", rng.choice(["1", "1", "3", "auto"])]
        _one(command, folder / str(tally.runs), kills, rng, tally)
        tally.runs += 1
    return tally


def _one(command: list[str], folder: Path, kills: int, rng: random.Random, tally: Tally) -> None:
    whole, parts = folder / "whole", folder / "parts"
    if _ended(_start([*command, "--out", str(whole)], folder)) != 0:
        tally.faults += 1
        return
    length = sum(each.seconds for each in read_records(whole / "records.jsonl")) * rng.choice([0.2, 0.5, 1.0])
    killed = 0
    while status(parts) != "ended":
        fresh = status(parts) == "nothing"
        child = _start([*command, "--out", str(parts)] if fresh else ["resume", str(parts), "--quiet"], folder)
        tally.resumes += not fresh
        code, until = None, None
        while code is None and (until is None or time.monotonic() < until):
            time.sleep(0.0005)
            code = _poll(child)
            if until is None and killed < kills and _working(child, parts):
                until = time.monotonic() + rng.uniform(0, length)
        if code is None:
            os.kill(child, signal.SIGKILL)
            tally.kills += _ended(child) == -signal.SIGKILL
            tally.in_checkpoint += any((parts / "checkpoint").glob("*.part"))
            killed += 1
        elif code:
            tally.faults += 1
            return
    tally.different += outcome(whole) != outcome(parts)


def _warm_up() -> None:
    """Import what a run imports and load its data, so that children need not."""
    torch.set_num_threads(1)  # before the first fork: threads do not survive it
    import feddc.cli.display
    import feddc.report.tables  # noqa: F401
    from feddc.study.config import resolve
    from feddc.study.sources import Named

    Named().simulation(resolve({"clients": 8, "rounds": 1, "executor": "in-process"})).step()


def _working(child: int, run: Path) -> bool:
    """Whether this process has come so far as to write to the run directory."""
    try:
        return (run / "lock").read_text().startswith(f"process {child} ")
    except FileNotFoundError:
        return False


def outcome(run: Path) -> tuple[object, bytes]:
    """What must not differ: records without their times, and the model's bytes."""
    records = [dataclasses.replace(each, seconds=0.0) for each in read_records(run / "records.jsonl")]
    return records, (run / "model.safetensors").read_bytes()


def _start(command: list[str], folder: Path) -> int:
    """Run a command in a fork; its process id. What it says goes to a file."""
    folder.mkdir(parents=True, exist_ok=True)
    child = os.fork()
    if child:
        return child
    try:
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        main(command)
    except SystemExit as ended:
        sys.stderr.flush()
        os._exit(int(ended.code or 0))
    finally:  # whatever happens, the child must not go on as its parent
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(70)


def _poll(child: int) -> int | None:
    pid, state = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(state) if pid else None


def _ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
