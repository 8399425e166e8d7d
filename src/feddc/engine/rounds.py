"""One round: broadcast → gather → correct → train → upload → scatter and mean → aggregate. No method is named here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..algorithms import Algorithm, method_name
from ..errors import DivergedError
from ..models import Buffers
from ..types import Cohort, LocalResult
from .executors import Executor, Trained, chunk_size, one_thread
from .local import Start
from .store import ClientStore


class RoundResult(NamedTuple):
    """The server after a round, and what was moved for it."""

    server: Any
    buffers: Buffers
    bytes_up: int
    bytes_down: int


def run_round(
    algorithm: Algorithm,
    server: Any,
    buffers: Buffers,
    store: ClientStore,
    executor: Executor,
    cohort: Sequence[int],
    weights: Tensor,
    round: int,
    steps: int,
    lr: float,
) -> RoundResult:
    """Run one round with this cohort; ``weights`` is the column of ω_i of all clients."""
    sent = algorithm.broadcast(server)
    start = Start(round, server.model, buffers)
    sums = Sums()
    with one_thread():
        for clients in chunks(cohort, server.model.nbytes):
            weight = weights[list(clients)]  # (k, 1)
            state = store.gather(clients)
            trained = executor.train(clients, start, algorithm.correct(sent, state, weight))
            check_finite(trained, clients, method_name(algorithm), round)
            local = LocalResult(trained.params - server.model, steps, lr)
            upload, state = algorithm.upload(sent, state, local, weight)
            store.scatter(clients, state)
            sums.add(upload, trained.buffers, weight)
        mean, mean_weight, buffers = sums.means(len(cohort), buffers)
        server = algorithm.aggregate(server, mean, Cohort(len(cohort) / len(weights), mean_weight))
        if not torch.isfinite(server.model).all():
            raise DivergedError(method_name(algorithm), round)
    up, down = (len(cohort) * (nbytes(state) + buffers.nbytes) for state in (mean, sent))
    return RoundResult(server, buffers, up, down)


def chunks(cohort: Sequence[int], row_bytes: int) -> Iterator[Sequence[int]]:
    """The cohort in parts small enough for memory."""
    size = chunk_size(row_bytes)
    return (cohort[i : i + size] for i in range(0, len(cohort), size))


def check_finite(trained: Trained, clients: Sequence[int], method: str, round: int) -> None:
    """Refuse NaN and Inf before they can be averaged in."""
    finite = torch.isfinite(trained.params).all(dim=1) & torch.isfinite(trained.buffers.floats).all(dim=1)
    if not finite.all():
        raise DivergedError(method, round, clients[int((~finite).nonzero()[0])])


def nbytes(state: Any) -> int:
    """The size of a NamedTuple of tensors: what travels when it is sent."""
    return sum(field.nbytes for field in state)


class Sums:
    """Running sums over a cohort, so that it can be processed in parts and the server sees only means."""

    def __init__(self) -> None:
        self.upload: Any = None
        self.weight = 0.0
        self.floats: Tensor | float = 0.0
        self.ints: Tensor | None = None

    def add(self, upload: Any, buffers: Buffers, weight: Tensor) -> None:
        parts = [field.sum(dim=0) for field in upload]
        self.upload = type(upload)(*(parts if self.upload is None else map(torch.add, self.upload, parts)))
        self.weight += float(weight.sum())
        self.floats = self.floats + (weight * buffers.floats).sum(dim=0)
        largest = buffers.ints.amax(dim=0)
        self.ints = largest if self.ints is None else torch.maximum(self.ints, largest)

    def means(self, size: int, before: Buffers) -> tuple[Any, float, Buffers]:
        """Mean upload, mean weight, and the new buffers: floats as FedAvg averages, counters carried over."""
        mean = type(self.upload)(*(field / size for field in self.upload))
        ints = before.ints if self.ints is None else self.ints
        return mean, self.weight / size, Buffers(torch.as_tensor(self.floats) / self.weight, ints)
