"""Which executor runs a job, and why."""

from __future__ import annotations

import os
from typing import NamedTuple

import torch

from ...errors import ConfigError, WorkerError, check, check_count, first_line, unknown
from ...options import Compute
from ..cost import client_seconds, rows_seconds, step_flops
from ..local.gradient import written_out
from ..local.kernel import Job
from .base import Executor
from .in_process import InProcess
from .vectorised import Vectorised
from .workers import Workers

NAMES = ("auto", "in-process", "ray", "vectorised", "workers")
CORES = "FEDDC_CORES"
"""The environment variable with this process's share of the cores, where several run side by side."""

SMALL_STEP = 2e6  # floating-point operations: below this a step is mostly overhead, which rows share
WORTH_STARTING = 5.0  # seconds: workers take one or two to start


class Choice(NamedTuple):
    executor: Executor
    reason: str
    """One sentence: what runs, and why."""


def choose(job: Job, rounds: int, cohort: float, compute: Compute = Compute()) -> Choice:
    """The executor that ``compute`` names, or for "auto" the one that suits ``rounds`` rounds of ``cohort`` clients.

    A cluster is never chosen automatically: what it costs in a round, one machine does not.
    """
    place = check_choice(compute)
    name, workers = compute.executor, compute.workers
    if name == "ray":
        return _on_ray(job, compute.ray_address)
    if name == "in-process":
        used = None if place == "cpu" else place
        return Choice(InProcess(job, used), f"in-process{f' on {place}' if used else ''}, as asked")
    if name == "vectorised":
        count = 1 if place != "cpu" else workers or _worth_starting(job, rounds, cohort)
        executor = Vectorised(job, place, count)
        return Choice(executor, f"vectorised on {place}{_spread(executor)}, as asked")
    if name == "workers":
        count = min(workers or usable_cores(), len(job.federation))
        return Choice(Workers(job, count), f"{_processes(count)}, as asked")
    if workers is None and place != "cpu":
        try:
            return Choice(Vectorised(job, place), f"vectorised, to use the {place} device")
        except ConfigError as error:
            return Choice(InProcess(job, place), f"in-process on {place}, one client after another: {error}")
    return _on_cpu(job, rounds, cohort, workers)


def _on_ray(job: Job, address: str | None) -> Choice:
    try:
        from .ray import RayExecutor
    except ModuleNotFoundError as error:
        raise ConfigError(f"executor 'ray' needs Ray, install feddc[ray]: {error}") from None
    executor = RayExecutor(job, address)
    return Choice(executor, f"{executor.count} Ray actors, as asked")


def check_choice(compute: Compute) -> str:
    """Refuse names that do not exist or do not go together; the device to use."""
    name, workers, device, ray_address = compute.executor, compute.workers, compute.device, compute.ray_address
    if name not in NAMES:
        raise unknown("executor", name, NAMES)
    if workers is not None:
        check_count("workers", workers)
        on = "" if device in ("auto", "cpu") else f" on {device}"
        fits = name in ("auto", "workers") or (name == "vectorised" and not on)
        check(fits, f"workers={workers} cannot be combined with executor='{name}'{on}")
    if device not in ("auto", "cpu"):
        fits = name in ("auto", "in-process", "vectorised")
        check(fits, f"device='{device}' needs executor='vectorised' or 'in-process'")
    check(ray_address is None or name == "ray", f"ray_address='{ray_address}' needs executor='ray', not '{name}'")
    return find_device(device)


def _on_cpu(job: Job, rounds: int, cohort: float, workers: int | None) -> Choice:
    # Vectorised has bits of its own: whether it is taken must not depend on the machine.
    dense = job.one_at_a_time is None and job.own is None and written_out(job.module, job.federation.task) is not None
    if workers is None and cohort >= 2 and dense and step_flops(job) <= SMALL_STEP:
        executor = Vectorised(job, workers=_worth_starting(job, rounds, cohort))
        why = "because a step of this model is so small that clients should share it"
        return Choice(executor, f"vectorised{_spread(executor)}, {why}")
    count = min(workers or usable_cores(), len(job.federation))
    if count == 1:
        return Choice(InProcess(job), "in-process, because there is only one core, or one client, to use")
    if rounds * cohort * client_seconds(job) < WORTH_STARTING:
        return Choice(InProcess(job), "in-process, because the run is too short to be worth starting worker processes")
    try:
        return Choice(Workers(job, count), f"{_processes(count)}, to train as many clients at a time")
    except WorkerError as error:
        return Choice(InProcess(job), f"in-process, because {error}")


def find_device(name: str) -> str:
    """A device that can be used; for "auto" a GPU if there is one."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.zeros(1, device=name).item()  # "meta" can be written to, but not read
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        raise ConfigError(f"device '{name}' cannot be used: {first_line(error)}") from error
    return name


def usable_cores() -> int:
    """How many cores this process may use: all that the system gives it, or its share of them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = os.environ.get(CORES, "")
    return min(cores, int(share)) if share.isdecimal() and int(share) else cores


def _worth_starting(job: Job, rounds: int, cohort: float) -> int:
    """How many processes train a cohort in rows: one where starting more would take longer than they save."""
    return usable_cores() if rounds * rows_seconds(job, cohort) >= WORTH_STARTING else 1


def _spread(executor: Vectorised) -> str:
    return f" in {_processes(executor.workers)}" if executor.workers > 1 else ""


def _processes(count: int) -> str:
    return f"{count} worker process{'es' if count > 1 else ''}"
