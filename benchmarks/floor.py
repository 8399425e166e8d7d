"""The least time a step could take: its floating-point operations at the speed of large matrix products, here and
now."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor

import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from .workloads import Workload

SIZE = 1024


def step_flops(workload: Workload) -> int:
    """Operations of forward and backward on one batch; nobody needs the gradient of the samples themselves."""
    size = min(workload.training.batch_size or 1, len(workload.federation.clients[0]))
    x, y = workload.federation.first(size)
    with FlopCounterMode(display=False) as counter:
        torch.autograd.backward(F.cross_entropy(workload.model(x), y))
    workload.model.zero_grad()
    return int(counter.get_total_flops())


class Machine:
    """One process for each core, which multiply matrices at the same time."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._pool = ProcessPoolExecutor(cores, multiprocessing.get_context("spawn"))

    def flops(self, seconds: float, kind: torch.dtype = torch.float32) -> float:
        """Operations a second, all cores together, in products of this type."""
        return sum(self._pool.map(_multiply, [seconds] * self.cores, [kind] * self.cores))

    def close(self) -> None:
        self._pool.shutdown()


def _multiply(seconds: float, kind: torch.dtype) -> float:
    torch.set_num_threads(1)
    a, b = torch.randn(SIZE, SIZE).to(kind), torch.randn(SIZE, SIZE).to(kind)
    torch.mm(a, b)
    speeds: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or not speeds:
        began = time.perf_counter()
        torch.mm(a, b)
        speeds.append(2 * SIZE**3 / (time.perf_counter() - began))
    return sorted(speeds)[len(speeds) // 2]
