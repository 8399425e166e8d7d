"""One round: broadcast → gather → correct → train → upload → scatter and mean → aggregate. No method is named here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..algorithms import Algorithm, method_name
from ..errors import DivergedError
from ..models import Buffers
from ..types import Cohort, Correction, LocalResult
from .drift import DriftMeter
from .executors import Executor, Trained, chunk_size, one_thread
from .local import Start
from .store import ClientStore

CACHED_BYTES = 2 * 2**20
"""After training, so many bytes of rows are worked on at a time: they stay in cache, and their memory is used again."""


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
    meter: DriftMeter | None = None,
) -> RoundResult:
    """Run one round with this cohort; ``weights`` is the column of ω_i of all clients, ``meter`` looks on."""
    sent = algorithm.broadcast(server)
    start = Start(round, server.model, buffers)
    size = max(1, CACHED_BYTES // server.model.nbytes)
    sums = Sums()

    def correct(clients: Sequence[int]) -> Correction:
        return algorithm.correct(sent, store.gather(clients), weights[list(clients)])

    with one_thread():
        for chunk in parts(cohort, chunk_size(server.model.nbytes)):
            trained = executor.train(chunk, start, correct)
            check_finite(trained, chunk, method_name(algorithm), round)
            rows = zip(*(parts(each, size) for each in (chunk, trained.params, *trained.buffers)), strict=True)
            for clients, params, floats, ints in rows:
                weight = weights[clients]  # (k, 1)
                local = LocalResult(params - server.model, steps, lr)
                before = store.gather(clients)
                if meter is not None:
                    meter.add(local.delta, before)
                upload, state = algorithm.upload(sent, before, local, weight)
                store.scatter(clients, state)
                sums.add(upload, Buffers(floats, ints), weight)
        mean, mean_weight, buffers = sums.means(len(cohort), buffers)
        server = algorithm.aggregate(server, mean, Cohort(len(cohort) / len(weights), mean_weight))
        if not torch.isfinite(server.model).all():
            raise DivergedError(method_name(algorithm), round)
    up, down = (len(cohort) * (nbytes(state) + buffers.nbytes) for state in (mean, sent))
    return RoundResult(server, buffers, up, down)


def parts(rows: Any, size: int) -> Iterator[Any]:
    """A sequence or tensor in parts of at most ``size``."""
    return (rows[i : i + size] for i in range(0, len(rows), size))


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
