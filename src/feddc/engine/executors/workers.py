"""Worker processes: persistent, single-threaded, over shared memory.

The data is put into shared memory once. In a round the parent writes the global model and the rows of the correction
there, hands out clients, longest first, to whichever worker is free, and finds the trained rows in the same memory. A
client is trained by one worker on one thread with the in-process code, so the bits are those of ``InProcess`` whatever
the number of workers.

Workers are fresh interpreters rather than forks: a fork copies whatever state torch's threads were in. They do not run
the user's script, so it needs no ``if __name__ == "__main__"``; a class defined there is sent to them by value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import cloudpickle
import torch

from ...data.blocks import Block
from ...data.sharing import bare, named_tensors
from ...errors import WorkerError
from ...models import Buffers, FlatModel
from ...types import COLUMNS, VECTORS
from ..evaluation import Evaluation, unpacked
from ..local.kernel import Job, Start
from ..local.rows import RowTrainer
from .base import Correct, Parts, Trained, chunk_size, in_parts, part_size, parts
from .pool import Pool
from .shared import SharedMemory, TensorLayout
from .worker import DATA, Assignment, Setup


class Workers:
    """The clients of a cohort spread over worker processes. After ``close`` the next use starts new ones."""

    def __init__(self, job: Job, count: int, rows: RowTrainer | None = None) -> None:
        """With ``rows`` a worker trains a whole group of clients at once. Raises WorkerError if the workers cannot load
        the job."""
        self.job, self.rows = job, rows
        self.count = min(count, len(job.federation))
        self._layout = _layout(job)
        self._setup = _pickled(Setup(replace(job, federation=bare(job.federation)), self._layout, rows is not None))
        self._pool: Pool | None = None
        self._pool = self._started()

    def train(self, clients: Sequence[int], start: Start, correct: Correct) -> Parts:
        memory = self._load(start)
        k = len(clients)
        if self.rows is None:
            groups = sorted((range(row, row + 1) for row in range(k)), key=lambda one: -self._samples(clients[one[0]]))
        else:
            groups = self.rows.groups(k)

        def tasks() -> Iterator[Assignment]:
            for group in groups:
                some, place = tuple(clients[row] for row in group), slice(group.start, group.stop)
                parts = correct(some)._asdict()
                for name in COLUMNS:
                    memory[name][place] = parts[name]
                vectors = tuple(name for name in VECTORS if parts[name] is not None)
                for name in vectors:
                    memory[name][place] = parts[name]
                yield Assignment(start.round, group.start, some, vectors)

        rows = Trained(
            memory["params"][:k], Buffers(memory["row_floats"][:k], memory["row_ints"][:k]), memory["dual"][:k]
        )
        missing = set(range(k))
        waiting = deque(zip(parts(range(k), part_size(start.model.nbytes)), in_parts(rows, start), strict=True))
        with closing(self._run(tasks())) as results:
            for task, _ in results:
                missing.difference_update(range(task.row, task.row + len(task.clients)))
                while waiting and missing.isdisjoint(waiting[0][0]):
                    part = waiting.popleft()[1]
                    yield part if "dual" in task.vectors else part._replace(dual=None)

    def _samples(self, client: int) -> int:
        return len(self.job.federation.clients[client])

    def measure(self, start: Start, blocks: Sequence[Block]) -> list[Evaluation]:
        self._load(start)
        tasks = [Assignment(start.round, block=block) for block in blocks]
        found = dict(self._run(iter(tasks)))
        return [unpacked(found[task]) for task in tasks]

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _load(self, start: Start) -> SharedMemory:
        self._pool = self._pool or self._started()
        memory = self._pool.memory
        memory["model"].copy_(start.model)
        memory["floats"].copy_(start.buffers.floats)
        memory["ints"].copy_(start.buffers.ints)
        return memory

    def _started(self) -> Pool:
        memory = SharedMemory(self._layout)
        for name, tensor in named_tensors(self.job.federation).items():
            memory[f"{DATA}{name}"].copy_(tensor)
        return Pool(self.count, self._setup, memory)

    def _run(self, tasks: Iterator[Assignment]) -> Generator[tuple[Assignment, Any], None, None]:
        assert self._pool is not None
        try:
            yield from self._pool.run(tasks)
        except BaseException:  # a worker may be in the middle of a task: a later call starts afresh
            self.close()
            raise


def _layout(job: Job) -> TensorLayout:
    federation, model = job.federation, FlatModel(job.module)
    (params,), dtype = model.params.shape, model.params.dtype
    (floats,), (ints,) = (field.shape for field in model.buffers())
    rows = min(len(federation), chunk_size(model.params.nbytes))
    data = {f"{DATA}{name}": (part.dtype, tuple(part.shape)) for name, part in named_tensors(federation).items()}
    return data | {
        "model": (dtype, (params,)),
        "floats": (dtype, (floats,)),
        "ints": (torch.int64, (ints,)),
        **dict.fromkeys(VECTORS, (dtype, (rows, params))),
        **dict.fromkeys(COLUMNS, (torch.float64, (rows, 1))),
        "params": (dtype, (rows, params)),
        "row_floats": (dtype, (rows, floats)),
        "row_ints": (torch.int64, (rows, ints)),
    }


def _pickled(setup: Setup) -> bytes:
    try:
        # By value what the script or notebook defines itself, which workers cannot import.
        found: bytes = cloudpickle.dumps(setup)
    except Exception as error:  # pickle lets through whatever the objects raise
        raise WorkerError(f"the model or the data cannot be sent to worker processes: {error}") from error
    return found
