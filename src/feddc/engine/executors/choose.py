"""Which executor runs a job, and why."""

from __future__ import annotations

import copy
import os
from typing import NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from ...errors import WorkerError, check, check_count, unknown
from ..local import Job
from .base import Executor
from .in_process import InProcess
from .workers import Workers

# A core of a plain machine, give or take a factor of two.
FLOPS = 40e9
STEP_SECONDS = 150e-6
WORTH_STARTING = 5.0  # seconds: workers take one or two to start

NAMES = ("auto", "in-process", "vectorised", "workers")


class Choice(NamedTuple):
    executor: Executor
    reason: str
    """One sentence: what runs, and why."""


def choose(job: Job, visits: float, name: str = "auto", workers: int | None = None) -> Choice:
    """The executor called ``name``, or for "auto" the one that suits the job.

    ``visits`` is how many times a client will be trained in the whole run, all clients together.
    """
    if name not in NAMES:
        raise unknown("executor", name, NAMES)
    if workers is not None:
        check_count("workers", workers)
        check(name in ("auto", "workers"), f"workers={workers} does not go with executor='{name}'")
    if name == "in-process":
        return Choice(InProcess(job), "in-process, as asked")
    if name == "workers":
        count = workers or usable_cores()
        return Choice(Workers(job, count), f"{_processes(count)}, as asked")
    return _automatic(job, visits, workers)


def _automatic(job: Job, visits: float, workers: int | None) -> Choice:
    count = min(workers or usable_cores(), len(job.federation))
    if count == 1:
        return Choice(InProcess(job), "in-process, because there is only one core, or one client, to use")
    if visits * client_seconds(job) < WORTH_STARTING:
        return Choice(InProcess(job), "in-process, because the run is too short to be worth starting worker processes")
    try:
        return Choice(Workers(job, count), f"{_processes(count)}, to train as many clients at a time")
    except WorkerError as error:
        return Choice(InProcess(job), f"in-process, because {error}")


def client_seconds(job: Job) -> float:
    """A rough guess of what the training of an average client takes on one core."""
    training, sizes = job.training, job.federation.sizes
    steps = job.fixed_steps or training.nominal_steps(sizes)
    samples = training.epochs * float(sizes.mean())
    return steps * STEP_SECONDS + samples * 3 * forward_flops(job) / FLOPS


@torch.no_grad()
def forward_flops(job: Job) -> int:
    """Floating-point operations of the model on one sample."""
    module, x = copy.deepcopy(job.module).eval(), job.federation.x[:1]
    parameters = list(module.parameters())
    with FlopCounterMode(display=False) as counter:
        module(x.to(parameters[0].dtype) if x.is_floating_point() else x)
    return max(int(counter.get_total_flops()), 2 * sum(p.numel() for p in parameters))


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processes(count: int) -> str:
    return f"{count} worker process{'es' if count > 1 else ''}"
