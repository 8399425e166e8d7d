"""Measurements. All contestants of a workload take turns, so that a busy moment of the machine hits each of them."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import torch

import feddc
from feddc.data.blocks import Block
from feddc.engine.evaluation import Evaluation
from feddc.engine.executors import Executor, Parts, Workers
from feddc.engine.local.batches import plan
from feddc.engine.local.kernel import Start
from feddc.engine.local.precision import cpu_slowdown
from feddc.options import Precision

from . import plain
from .floor import Machine, step_flops
from .large import Peak
from .peers import peer_workload
from .workloads import WORKLOADS, Workload

PLAIN, BARE, FLOOR, PEER = "plain loop", "bare loop", "floor", "fedjax, jit"
HALF = ", bf16"
"""What the name of a contestant that trains in bf16 ends with."""


@dataclass(frozen=True)
class Spread:
    """Several measurements of one thing."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Row:
    """One contestant: seconds per local step, and for ours how a round evaluated every time divides, in parts of 1."""

    workload: str
    contestant: str
    step: Spread
    evaluation: Spread | None = None
    rest: Spread | None = None
    memory: float | None = None
    """MB of anonymous memory at the most, of a process that runs one round of it and of its workers together."""


class Timed:
    """An executor with a watch."""

    def __init__(self, executor: Executor) -> None:
        self.executor, self.training, self.evaluation = executor, 0.0, 0.0

    def train(self, clients: Sequence[int], start: Start, correct: Any) -> Parts:
        began = time.perf_counter()
        with closing(self.executor.train(clients, start, correct)) as parts:
            for part in parts:
                there = time.perf_counter()
                self.training += there - began
                yield part
                # Workers go on while the part is worked on: training lasts until the last one is there.
                began = there if isinstance(self.executor, Workers) else time.perf_counter()

    def measure(self, start: Start, blocks: Sequence[Block]) -> list[Evaluation]:
        began = time.perf_counter()
        found = self.executor.measure(start, blocks)
        self.evaluation += time.perf_counter() - began
        return found

    def close(self) -> None:
        self.executor.close()


class Contestant:
    """FedDC with one of our executors, a round at a time."""

    def __init__(self, workload: Workload, executor: str, precision: Precision, evaluated: Precision) -> None:
        self.simulation = feddc.Simulation(
            feddc.FedDC(alpha=plain.ALPHA),
            workload.model,
            workload.federation,
            rounds=1_000_000,
            cohort_size=workload.cohort,
            training=workload.training,
            executor=executor,
            precision=precision,
            evaluate_precision=evaluated,
        )
        self.watch = Timed(self.simulation.executor)
        self.job = self.watch.executor.job  # type: ignore[attr-defined]
        self.simulation.executor = self.watch

    def round(self) -> tuple[float, float, float]:
        """Seconds per local step; evaluation and everything else as parts of the round."""
        self.watch.training = self.watch.evaluation = 0.0
        record = self.simulation.step()
        steps = sum(len(plan(self.job, record.round, client)) for client in record.participants)
        rest = record.seconds - self.watch.training - self.watch.evaluation
        return self.watch.training / steps, self.watch.evaluation / record.seconds, rest / record.seconds


def measure(name: str, repeats: int, smoke: bool, machine: Machine, say: Callable[[str], None]) -> list[Row]:
    """All contestants of a workload, ``repeats`` times after one round to warm up."""
    workload = WORKLOADS[name](smoke)
    flops = step_flops(workload)
    half = workload.half and (cpu_slowdown() < 1 or (smoke and name == "fcn"))
    kinds: list[Precision] = ["float32", "bf16"] if half else ["float32"]
    names = {(executor, kind, kind): label(executor, kind) for kind in kinds for executor in workload.executors}
    if half:  # training in float32, evaluation not
        names[(workload.executors[-1], "float32", "bf16")] = f"{workload.executors[-1]}, evaluation bf16"
    ours = {name: Contestant(workload, *key) for key, name in names.items()}
    peers = peer_workload(name, smoke)
    threads = sorted({1, torch.get_num_threads()})
    loops = {
        (kind, each): f"{kind}, {each} thread{'s' if each > 1 else ''}" for kind in (PLAIN, BARE) for each in threads
    }
    loop_steps: dict[str, list[float]] = {who: [] for who in loops.values()}
    floor_steps: dict[str, list[float]] = {label(FLOOR, kind): [] for kind in kinds}
    peer_steps: list[float] = []
    rounds: dict[str, list[tuple[float, float, float]]] = {who: [] for who in ours}
    for turn in range(repeats + 1):
        say(f"{name}: turn {turn} of {repeats}")
        for kind in kinds:
            speed = machine.flops(0.01 if smoke else 0.5, torch.bfloat16 if kind == "bf16" else torch.float32)
            floor_steps[label(FLOOR, kind)].append(flops / speed)
        if peers is not None:
            peer_steps.append(peers())
        clients = 1 if turn == 0 or smoke else min(2, workload.cohort)
        for (loop, each), who in loops.items():
            loop_steps[who].append(plain.seconds_per_step(workload, clients, each, loop == BARE))
        for who, contestant in ours.items():
            rounds[who].append(contestant.round())
    for contestant in ours.values():
        contestant.watch.close()
    say(f"{name}: memory")
    memory = {who: peak_memory(name, smoke, *key) for key, who in names.items()}
    rows = [Row(name, who, Spread.of(found[1:])) for who, found in loop_steps.items()]
    for who, found in rounds.items():
        step, evaluation, rest = (Spread.of(column) for column in zip(*found[1:], strict=True))
        rows.append(Row(name, who, step, evaluation, rest, memory[who]))
    if peer_steps:
        rows.append(Row(name, PEER, Spread.of(peer_steps[1:])))
    return [*rows, *(Row(name, who, Spread.of(found[1:])) for who, found in floor_steps.items())]


def label(who: str, precision: Precision) -> str:
    return who if precision == "float32" else who + HALF


def peak_memory(name: str, smoke: bool, executor: str, precision: Precision, evaluated: Precision) -> float:
    """MB of anonymous memory that one contestant takes at the most, in a process of its own."""
    what = f"{name!r}, {smoke!r}, {executor!r}, {precision!r}, {evaluated!r}"
    return float(_python("-c", f"from benchmarks.measure import print_memory; print_memory({what})"))


def print_memory(name: str, smoke: bool, executor: str, precision: Precision, evaluated: Precision) -> None:
    """One round, and what it took in this process and its workers."""
    peak = Peak()
    contestant = Contestant(WORKLOADS[name](smoke), executor, precision, evaluated)
    contestant.round()
    contestant.watch.close()
    print(peak.parent + peak.workers)


def many_clients(clients: int, rounds: int) -> dict[str, Any]:
    """Time and memory with so many clients of which 50 take part, in a process of its own."""
    result: dict[str, Any] = json.loads(_python("-c", f"from benchmarks.many import main; main({clients}, {rounds})"))
    return result


def large_state(executor: str, clients: int) -> dict[str, Any]:
    """Memory when everyone takes part and the state is far larger than it, in a process of its own."""
    result: dict[str, Any] = json.loads(
        _python("-c", f"from benchmarks.large import main; main({executor!r}, {clients})")
    )
    return result


def start_up(executor: str, repeats: int) -> Spread:
    """Seconds of a whole ``feddc run`` of one round: the interpreter, imports, data, executor, the round, its files."""
    seconds = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            _python("-m", "feddc", "run", "--rounds", "1", "--executor", executor, "--out", f"{folder}/run", "--quiet")
            seconds.append(time.perf_counter() - began)
    return Spread.of(seconds)


def _python(*arguments: str) -> str:
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, env=path).stdout


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [asdict(row) for row in rows]
