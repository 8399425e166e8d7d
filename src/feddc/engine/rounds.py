"""One round: broadcast → gather → correct → train → upload → scatter and mean → aggregate. No method is named here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..algorithms import Algorithm, method_name, steadier
from ..errors import DivergedError
from ..models import Buffers
from ..options import OnBadUpdate
from ..trust.guard import Guard
from ..types import Cohort, Column, Correction, Local, LocalResult, Mean, Means, Rows, Schedule, Weights
from .compress import Compression
from .drift import DriftMeter
from .executors import Executor, chunk_size, one_thread, part_size, parts
from .guarding import Arrived, guarded
from .local.kernel import Start
from .records import Rejected
from .screening import bad_rows, misfits
from .store import ClientStore


class RoundState(NamedTuple):
    """What is kept from round to round."""

    server: Any
    buffers: Buffers
    store: ClientStore


@dataclass(frozen=True)
class Participants:
    """Who takes part in a round, and what is known of everyone."""

    cohort: Sequence[int]
    """The clients that answer."""
    weights: Column
    """ω_i of all clients, present or not."""
    steps: Column
    """K_i of all clients."""
    members: int | None = None
    """How many clients there are in this round, where that is not all."""


@dataclass(frozen=True)
class Handling:
    """What is done to vectors on their way, and with updates that cannot be used."""

    on_bad_update: OnBadUpdate = "stop"
    """A bad update stops the run, or is left out: the round is then one of the others, if there are any."""
    guard: Guard | None = None
    """What is used of the updates; decided before state is kept, so that a client remembers what the server used."""
    compression: Compression | None = None
    """What rounds the vectors that travel: both sides work on with what arrived."""

    def nbytes(self, state: Any) -> int:
        """What a NamedTuple of tensors takes when it travels."""
        return nbytes(state) if self.compression is None else self.compression.nbytes(state)


class RoundResult(NamedTuple):
    """The server after a round, and what was moved for it."""

    server: Any
    buffers: Buffers
    bytes_up: int
    bytes_down: int
    accepted: tuple[int, ...]
    rejected: tuple[Rejected, ...]


def run_round(
    algorithm: Algorithm,
    state: RoundState,
    present: Participants,
    schedule: Schedule,
    executor: Executor,
    handling: Handling = Handling(),
    meter: DriftMeter | None = None,
) -> RoundResult:
    """Run one round; the rows of ``state.store`` change in place, and the server's new state is in the result.

    If no update can be used, the server stays as it is. ``meter`` looks on.
    """
    server, buffers, store = state
    cohort, weights, steps = present.cohort, present.weights, present.steps
    guard, compression = handling.guard, handling.compression
    sent, plan = algorithm.broadcast(server), vars(schedule)
    sent = sent if compression is None else compression.down(sent, schedule.round)
    start = Start(schedule.round, sent.model, buffers)
    size = part_size(server.model.nbytes)
    sums, accepted, rejected, up = Sums(), list[int](), list[Rejected](), 0
    down = len(cohort) * (handling.nbytes(sent) + buffers.nbytes)
    everyone: Weights = {} if guard is None else algorithm.weigh(Local(steps=steps, **plan), weights)
    masked = None if guard is None else guard.bytes_up(everyone, len(server.model), len(cohort))
    noisy = guard is not None and guard.central

    def refuse(bad: Sequence[Rejected]) -> set[int]:
        if bad and handling.on_bad_update == "stop":
            raise diverged(algorithm, schedule.round, bad[0].client, bad[0].reason)
        rejected.extend(bad)
        return {each.client for each in bad}

    def correct(clients: Sequence[int]) -> Correction:
        return algorithm.correct(sent, store.gather(clients), weights[list(clients)])

    def arrivals() -> Iterator[Arrived]:
        for chunk in parts(cohort, chunk_size(server.model.nbytes)):
            with closing(executor.train(chunk, start, correct)) as rows:
                for clients, trained in zip(parts(chunk, size), rows, strict=True):
                    if not refuse(misfits(trained, clients, start)):
                        delta = trained.params - sent.model
                        if compression is not None:
                            delta = compression.up(delta, clients, schedule.round)
                        yield Arrived(clients, trained.params, delta, trained.buffers, dual=trained.dual)

    def take(clients: Sequence[int], params: Rows, delta: Rows, trained: Buffers, told: int, dual: Rows | None) -> None:
        nonlocal up, down
        (floats, ints), weight = trained, weights[clients]  # (k, 1)
        local = LocalResult(delta=delta, dual=dual, steps=steps[clients], **plan)
        before, columns = store.gather(clients), algorithm.weigh(local, weight)
        upload, after = algorithm.upload(sent, before, local, weight)
        one = handling.nbytes([field[0] for field in upload]) if masked is None else masked
        up += len(clients) * (one + buffers.nbytes)
        down += len(clients) * told if store.row_bytes else 0
        if bad := refuse(bad_rows(clients, params, (floats, *upload, *after))):
            keep = [row for row, client in enumerate(clients) if client not in bad]
            clients = [clients[row] for row in keep]
            weight, floats, ints, delta = weight[keep], floats[keep], ints[keep], delta[keep]
            upload, after, before = (type(each)(*(field[keep] for field in each)) for each in (upload, after, before))
            columns = {name: column[keep] for name, column in columns.items()}
        if clients:
            store.scatter(clients, after)
            sums.add(upload, Buffers(floats, ints), weight, columns)
            accepted.extend(clients)
            if meter is not None:
                meter.add(delta, before, after)

    with one_thread():
        if noisy:  # one that adds nothing, as a round without anybody has to look like any other
            still = LocalResult(delta=torch.zeros_like(server.model).unsqueeze(0), steps=steps[:1], **plan)
            nothing, _ = algorithm.upload(sent, store.gather([0]), still, weights[:1])
            rows = Buffers(*(field.unsqueeze(0) for field in buffers))
            none = {name: torch.zeros_like(column[:1]) for name, column in everyone.items()}
            sums.add(nothing, rows, torch.zeros_like(weights[:1]), none)
        for arrived in arrivals() if guard is None else guarded(arrivals(), guard, start, refuse):
            take(*arrived)
        if accepted or noisy:
            means, buffers = sums.means(buffers)
            number: float = len(accepted)
            if noisy and guard is not None:
                number, means = guard.draws.size, guard.released(means, sums.size, everyone, schedule.round)
            share = number / (present.members or len(weights))
            took_part = Cohort(participation=share, size=round(number), sent=sent, **plan)
            server = algorithm.aggregate(server, means, took_part)
        if not torch.isfinite(server.model).all():
            raise diverged(algorithm, schedule.round)
    return RoundResult(server, buffers, up, down, tuple(accepted), tuple(rejected))


def diverged(algorithm: Algorithm, round: int, client: int | None = None, what: str = "NaN or Inf") -> DivergedError:
    """The error of a run that diverged, with what to try for this method."""
    return DivergedError(method_name(algorithm), round, client, what, steadier(algorithm))


def nbytes(state: Any) -> int:
    """The size of a NamedTuple of tensors: what travels when it is sent."""
    return sum(field.nbytes for field in state)


class Sums:
    """Running sums over a cohort, so that it can be processed in parts and the server sees only means.

    A part costs one pass over its uploads, whatever the number of weights.
    """

    def __init__(self) -> None:
        self.size = 0
        self.columns: list[str] = []
        self.uploads: Any = None
        self.totals: Tensor | float = 0.0
        self.squares: Tensor | float = 0.0
        self.weight = 0.0
        self.floats: Tensor | float = 0.0
        self.ints: Tensor | None = None

    def add(self, upload: Any, buffers: Buffers, weight: Column, weights: Weights) -> None:
        """Some clients: what they sent, their ω_i, and the weights that the method named, one column each."""
        columns = torch.cat(list(weights.values()), dim=1).t()  # (weights, k)
        parts = [columns @ field for field in upload]  # (weights, P)
        self.uploads = type(upload)(*(parts if self.uploads is None else map(torch.add, self.uploads, parts)))
        self.size, self.columns = self.size + len(weight), list(weights)
        self.totals = self.totals + columns.sum(dim=1)
        self.squares = self.squares + columns @ torch.linalg.vector_norm(upload.delta, dim=1).square()
        self.weight += float(weight.sum())
        self.floats = self.floats + (weight * buffers.floats).sum(dim=0)
        largest = buffers.ints.amax(dim=0)
        self.ints = largest if self.ints is None else torch.maximum(self.ints, largest)

    def means(self, before: Buffers) -> tuple[Means, Buffers]:
        """The mean for each weight, and the new buffers: floats as FedAvg averages, counters carried over."""
        totals, squares = (torch.as_tensor(each) / self.size for each in (self.totals, self.squares))
        means = {}
        for i, name in enumerate(self.columns):
            upload = type(self.uploads)(*(field[i] / self.size for field in self.uploads))
            means[name] = Mean(upload, float(totals[i]), float(squares[i]))
        ints = before.ints if self.ints is None else self.ints
        return means, Buffers(torch.as_tensor(self.floats) / self.weight, ints)
