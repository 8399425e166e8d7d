"""Executors: who runs the local training of a cohort, and how many at a time. All give the same result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import torch

from ..models import Buffers, FlatModel
from ..types import Correction, Rows
from .local import Evaluation, Job, Start, evaluate, train_client

EVALUATION_BLOCK = 1000


class Trained(NamedTuple):
    """One row per client, in the order in which the clients were asked for."""

    params: Rows
    buffers: Buffers


class Executor(Protocol):
    """Trains the clients of a cohort from one start, each with its own row of the correction."""

    def train(self, clients: Sequence[int], start: Start, correction: Correction) -> Trained: ...
    def evaluate(self, start: Start) -> Evaluation | None:
        """The global model on the test set, or None where there is none."""
        ...

    def close(self) -> None: ...


class InProcess:
    """One client after another, in this process, on one thread: for debugging, and the truth for the others."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.model = FlatModel(job.module)

    def train(self, clients: Sequence[int], start: Start, correction: Correction) -> Trained:
        params = start.model.new_empty(len(clients), start.model.numel())
        buffers: list[Buffers] = []
        with one_thread():
            for k, client in enumerate(clients):
                train_client(self.job, self.model, client, start, row(correction, k))
                params[k] = self.model.params
                buffers.append(self.model.buffers())
        floats, ints = (torch.stack(column) for column in zip(*buffers, strict=True))
        return Trained(params, Buffers(floats, ints))

    def evaluate(self, start: Start) -> Evaluation | None:
        if self.job.federation.test is None:
            return None
        self.model.load(start.model, start.buffers)
        blocks = zip(*(torch.split(part, EVALUATION_BLOCK) for part in self.job.federation.test), strict=True)
        with one_thread():
            return total([evaluate(self.model, x, y) for x, y in blocks])

    def close(self) -> None:
        pass


def row(correction: Correction, k: int) -> Correction:
    """The correction of the k-th client."""
    linear, prox, decay = correction
    return Correction(
        linear[k] if linear is not None and linear.ndim == 2 else linear,
        prox[k] if isinstance(prox, torch.Tensor) else prox,
        decay[k] if isinstance(decay, torch.Tensor) else decay,
    )


def total(parts: Sequence[Evaluation]) -> Evaluation:
    """The sum of evaluations, added in the order given."""
    correct, loss, samples = (sum(column) for column in zip(*parts, strict=True))
    return Evaluation(correct, loss, samples)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread: the bits of a result then do not depend on the machine's number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
