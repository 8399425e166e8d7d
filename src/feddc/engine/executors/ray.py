"""Actors on a Ray cluster (``feddc[ray]``): for cohorts that one machine does not hold.

The data is put into Ray's object store once, and each machine of the cluster keeps one copy. In a round the model is
put there too; chunks of clients, longest first, go to whichever actor is free, one actor for each core. An actor trains
a client on one thread with the in-process code, so the bits are those of ``Workers``. Client state stays with the
engine. A chunk whose actor was lost is given to another, and a new actor is started in its place.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ray.exceptions import ActorUnavailableError, RayActorError, RayTaskError

import ray

from ...data.blocks import Block
from ...data.sharing import bare
from ...errors import ConfigError, DataError, WorkerError, first_line
from ...models import Buffers
from ..evaluation import Evaluation
from ..local.kernel import Job, Start, one_row
from .base import Correct, Parts, Trained, in_parts
from .ray_actor import Actor, arrays_of, plain, put, tensor_over

CHUNKS = 4
"""So many chunks of clients for each actor: few enough to cost little, enough for the last ones to be short."""
START_SECONDS = 120.0
TRIES = 3


@dataclass
class Call:
    """One thing for an actor to do: the clients of a chunk, at these rows of the cohort, or a block of the test set."""

    method: str
    args: tuple[Any, ...]
    doing: str
    rows: Sequence[int] = ()
    tries: int = 0


class RayExecutor:
    """The clients of a cohort spread over the actors of a Ray cluster; ``address`` as for ``ray.init``."""

    def __init__(self, job: Job, address: str | None = None) -> None:
        """Raises WorkerError if the cluster cannot be reached or its actors cannot load the job."""
        self.job, self.address = job, address
        self._setup: tuple[Any, ...] = ()  # the job and its data in the object store
        self._owner = False
        self._actors: set[Any] = set()
        self._idle: list[Any] = []
        self._starting: dict[Any, Any] = {}  # the promise of each new actor to be ready
        self._open()

    def train(self, clients: Sequence[int], start: Start, correct: Correct) -> Parts:
        longest_first = sorted(range(len(clients)), key=lambda row: -len(self.job.federation.clients[clients[row]]))
        self._open()
        size = max(1, len(clients) // (CHUNKS * self.count))
        begin = put(start)

        def calls() -> Iterator[Call]:
            for first in range(0, len(clients), size):
                rows = longest_first[first : first + size]
                chunk = [clients[row] for row in rows]
                corrections = [plain(one_row(correct([client]))) for client in chunk]
                doing = f"trained client {', '.join(map(str, chunk))} in round {start.round}"
                yield Call("train", (chunk, begin, corrections), doing, rows)

        params, dual = (start.model.new_empty(len(clients), start.model.numel()) for _ in range(2))
        floats, ints = (each.new_empty(len(clients), each.numel()) for each in start.buffers)
        parts = 0
        for call, found in self._run(calls()):
            parts = len(found)
            for whole, part in zip((params, floats, ints, dual)[:parts], found, strict=True):
                whole[call.rows] = tensor_over(part)
        yield from in_parts(Trained(params, Buffers(floats, ints), dual if parts == 4 else None), start)

    def measure(self, start: Start, blocks: Sequence[Block]) -> list[Evaluation]:
        self._open()
        begin, doing = put(start), f"evaluated the model in round {start.round}"
        found = {
            call.args[1]: result
            for call, result in self._run(Call("evaluate", (begin, block), doing) for block in blocks)
        }
        return [found[block] for block in blocks]

    def close(self) -> None:
        if self._setup and ray.is_initialized():
            for actor in self._actors:
                ray.kill(actor)
            if self._owner:
                ray.shutdown()
        self._setup, self._actors, self._idle, self._starting = (), set(), [], {}

    def _open(self) -> None:
        """Join the cluster, hand over the data and start actors, unless that was done."""
        if self._setup:
            return
        self._owner = _connect(self.address)
        federation = self.job.federation
        self.count = max(1, min(_cores(), len(federation)))
        self._setup = ray.put(replace(self.job, federation=bare(federation))), ray.put(arrays_of(self.job))
        try:
            for _ in range(self.count):
                self._start()
            self._wait_for_an_actor()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        actor = Actor.remote(*self._setup)
        self._actors.add(actor)
        self._starting[actor.ready.remote()] = actor

    def _wait_for_an_actor(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._idle:
            if time.monotonic() > deadline:
                raise WorkerError(f"no Ray actor could be started within {START_SECONDS:g} seconds: is a core free?")
            self._collect(list(self._starting), {}, timeout=1.0)

    def _run(self, calls: Iterator[Call]) -> Iterator[tuple[Call, Any]]:
        """Do the calls, each on whichever actor is free; their results as they come."""
        try:
            yield from self._dispatch(calls)
        except BaseException:  # an actor may be in the middle of a chunk: a later call starts afresh
            self.close()
            raise

    def _dispatch(self, calls: Iterator[Call]) -> Iterator[tuple[Call, Any]]:
        again: list[Call] = []
        busy: dict[Any, tuple[Any, Call]] = {}
        while True:
            while self._idle and (call := again.pop() if again else next(calls, None)) is not None:
                actor = self._idle.pop()
                call.tries += 1
                busy[getattr(actor, call.method).remote(*call.args)] = actor, call
            if not busy and not again:
                return
            if not busy:  # every actor was lost
                self._wait_for_an_actor()
                continue
            for call, result in self._collect([*busy, *self._starting], busy):
                if result is None:
                    again.append(call)
                else:
                    yield call, result

    def _collect(
        self, waiting: list[Any], busy: dict[Any, tuple[Any, Call]], timeout: float | None = None
    ) -> list[tuple[Call, Any]]:
        """Wait for an answer; calls and their results, None where the actor was lost."""
        done, _ = ray.wait(waiting, num_returns=1, timeout=timeout)
        found = []
        for ref in done:
            new = ref in self._starting
            actor, call = (self._starting.pop(ref), Call("ready", (), "started")) if new else busy.pop(ref)
            try:
                result = ray.get(ref)
            except (RayActorError, ActorUnavailableError) as error:
                if new or call.tries >= TRIES:
                    raise WorkerError(f"a Ray actor was lost while it {call.doing}: {first_line(error)}") from error
                self._actors.discard(actor)
                self._start()
                found.append((call, None))
                continue
            except RayTaskError as error:
                raise _error(call, error) from error
            self._idle.append(actor)
            if not new:
                found.append((call, result))
        return found


def _connect(address: str | None) -> bool:
    """Join the cluster, or start one on this machine; whether it is ours to leave."""
    if ray.is_initialized():
        return False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a machine without a way out would wait for it
    joins = address is not None or "RAY_ADDRESS" in os.environ
    try:
        dashboard = None if joins else False
        ray.init(address, include_dashboard=dashboard, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise WorkerError(f"the Ray cluster {address or ''} cannot be used: {first_line(error)}") from error
    return True


def _cores() -> int:
    """The cores of all machines of the cluster."""
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return int(resources.get("CPU", 1))


def _error(call: Call, error: RayTaskError) -> Exception:
    cause: Any = error.cause
    if isinstance(cause, ConfigError | DataError):
        return type(cause)(str(cause))
    return WorkerError(f"a Ray actor failed while it {call.doing}: {type(cause).__name__}: {cause}")
