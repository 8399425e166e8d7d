"""Worker processes: persistent, single-threaded, over shared memory.

The data is put into shared memory once. In a round the parent writes the global model and the rows of the correction
there, hands out clients, longest first, to whichever worker is free, and finds the trained rows in the same memory. A
client is trained by one worker on one thread with the in-process code, so the bits are those of ``InProcess`` whatever
the number of workers.

Workers are fresh interpreters rather than forks: a fork copies whatever state torch's threads were in. They do not run
the user's script, so it needs no ``if __name__ == "__main__"``; a model class defined there cannot be sent to them.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import types
import weakref
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from ... import errors
from ...errors import ConfigError, DataError, WorkerError
from ...models import Buffers, FlatModel
from ..local import Evaluation, Job, Start, one_row
from .base import Correct, Parts, Trained, chunk_size, in_parts, part_size, parts, test_blocks, total
from .shared import Layout, SharedMemory
from .worker import Setup, Task

# Activations are allocated and freed in every step: have the C library keep that memory rather than return it to the
# system and fault it in anew, which was 15 % of the CNN's step.
_KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
_WORKER = (
    "import sys; sys.path[:] = {path!r}; from feddc.engine.executors.worker import main; main({control}, {memory})"
)


class Workers:
    """The clients of a cohort spread over worker processes. After ``close`` the next use starts new ones."""

    def __init__(self, job: Job, count: int) -> None:
        """Raises WorkerError if the workers cannot load the job."""
        self.job = job
        self.count = min(count, len(job.federation))
        self._layout = _layout(job)
        self._setup = _pickled(job, self._layout)
        self._pool: Pool | None = None
        self._pool = self._started()

    def train(self, clients: Sequence[int], start: Start, correct: Correct) -> Parts:
        memory = self._load(start)
        k = len(clients)
        longest_first = sorted(range(k), key=lambda row: -len(self.job.federation.clients[clients[row]]))

        def tasks() -> Iterator[Task]:
            for row in longest_first:
                linear, prox, decay = one_row(correct([clients[row]]))
                if linear is not None:
                    memory["linear"][row] = linear
                yield Task(start.round, row, clients[row], linear is not None, float(prox), float(decay))

        rows = Trained(memory["params"][:k], Buffers(memory["row_floats"][:k], memory["row_ints"][:k]))
        missing = set(range(k))
        waiting = deque(zip(parts(range(k), part_size(start.model.nbytes)), in_parts(rows, start), strict=True))
        with closing(self._run(tasks())) as results:
            for task, _ in results:
                missing.remove(task.row)
                while waiting and missing.isdisjoint(waiting[0][0]):
                    yield waiting.popleft()[1]

    def evaluate(self, start: Start) -> Evaluation | None:
        self._load(start)
        tasks = [Task(start.round, block=(block.start, block.stop)) for block in test_blocks(self.job.federation)]
        found = dict(self._run(iter(tasks)))
        return total([Evaluation(*found[task]) for task in tasks])

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
        federation = self.job.federation
        memory["x"].copy_(federation.x)
        memory["y"].copy_(federation.y)
        torch.cat(list(federation.clients), out=memory["clients"])
        memory["sizes"].copy_(torch.from_numpy(federation.sizes))
        if federation.test is not None:
            memory["test_x"].copy_(federation.test[0])
            memory["test_y"].copy_(federation.test[1])
        return Pool(self.count, self._setup, memory)

    def _run(self, tasks: Iterator[Task]) -> Generator[tuple[Task, Any], None, None]:
        assert self._pool is not None
        try:
            yield from self._pool.run(tasks)
        except BaseException:  # a worker may be in the middle of a task: a later call starts afresh
            self.close()
            raise


class Pool:
    """Running worker processes and the memory that they share with this one."""

    def __init__(self, count: int, setup: bytes, memory: SharedMemory) -> None:
        self.memory = memory
        self._processes: dict[Connection, subprocess.Popen[bytes]] = {}
        self.close = weakref.finalize(self, _stop, self._processes, memory, os.getpid())
        for _ in range(count):
            connection, process = _start(memory.file)
            self._processes[connection] = process
        try:
            for connection in self._processes:
                connection.send_bytes(setup)
            for connection in self._processes:
                self._result(connection, None)
        except BaseException:
            self.close()
            raise

    def run(self, tasks: Iterator[Task]) -> Iterator[tuple[Task, Any]]:
        """Do the tasks, in this order, each by whichever worker is free. Results come from when a worker has nothing
        left to do: the caller's work on them then fills the core that waits for the last tasks."""
        results: list[tuple[Task, Any]] = []
        busy: dict[Connection, Task] = {}
        idle = list(self._processes)
        for task in tasks:  # the next task is made ready while all workers are busy
            while not idle:
                idle += self._collect(busy, results)
            connection = idle.pop()
            busy[connection] = task
            self._send(connection, task)
        while busy:
            self._collect(busy, results)
            yield from results
            results.clear()

    def _collect(self, busy: dict[Connection, Task], results: list[tuple[Task, Any]]) -> list[Connection]:
        """Wait for an answer; the workers that are free after it."""
        answered = wait(list(busy))
        free = [connection for connection in busy if connection in answered]
        for connection in free:
            task = busy.pop(connection)
            results.append((task, self._result(connection, task)))
        return free

    def _send(self, connection: Connection, task: Task) -> None:
        try:
            connection.send_bytes(json.dumps(asdict(task)).encode())
        except OSError:  # nobody at the other end
            raise self._death(connection, task) from None

    def _result(self, connection: Connection, task: Task | None) -> Any:
        try:
            outcome, *rest = json.loads(connection.recv_bytes())
        except (EOFError, OSError):
            raise self._death(connection, task) from None
        if outcome == "error":
            raise _error(task, *rest)
        return rest[0]

    def _death(self, connection: Connection, task: Task | None) -> WorkerError:
        process = self._processes[connection]
        try:
            code = process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            code = 0
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return WorkerError(
            f"worker process {process.pid} {how} {_doing(task)}; "
            "if the machine ran out of memory, use fewer workers or executor='in-process'"
        )


def _start(memory: int) -> tuple[Connection, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair()
    code = _WORKER.format(path=sys.path, control=theirs.fileno(), memory=memory)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,  # open as long as we live: a worker leaves when it closes
            pass_fds=(theirs.fileno(), memory),
            env={**_KEEP_MEMORY, **os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            process_group=0,  # Ctrl-C reaches only us, and we stop the workers
        )
    return Connection(ours.detach()), process


def _stop(processes: dict[Connection, subprocess.Popen[bytes]], memory: SharedMemory, owner: int) -> None:
    """Workers hold nothing worth keeping, so they are killed, which also ends one in the middle of a long client."""
    if os.getpid() != owner:  # a fork of the parent: the workers are not its own
        return
    for process in processes.values():
        process.kill()
    for connection, process in processes.items():
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
        connection.close()
    memory.close()


def _layout(job: Job) -> Layout:
    federation, model = job.federation, FlatModel(job.module)
    (params,), dtype = model.params.shape, model.params.dtype
    (floats,), (ints,) = (field.shape for field in model.buffers())
    rows = min(len(federation), chunk_size(model.params.nbytes))
    test = federation.test or (federation.x[:0], federation.y[:0])
    return {
        "x": (federation.x.dtype, tuple(federation.x.shape)),
        "y": (torch.int64, tuple(federation.y.shape)),
        "clients": (torch.int64, (int(federation.sizes.sum()),)),
        "sizes": (torch.int64, (len(federation),)),
        "test_x": (test[0].dtype, tuple(test[0].shape)),
        "test_y": (torch.int64, tuple(test[1].shape)),
        "model": (dtype, (params,)),
        "floats": (dtype, (floats,)),
        "ints": (torch.int64, (ints,)),
        "linear": (dtype, (rows, params)),
        "params": (dtype, (rows, params)),
        "row_floats": (dtype, (rows, floats)),
        "row_ints": (torch.int64, (rows, ints)),
    }


def _pickled(job: Job, layout: Layout) -> bytes:
    federation = job.federation
    bare = replace(federation, x=federation.x[:0].clone(), y=federation.y[:0].clone(), clients=(), test=None)
    stream = io.BytesIO()
    try:
        _Pickler(stream).dump(Setup(replace(job, federation=bare), layout))
    except Exception as error:  # pickle lets through whatever the objects raise
        raise WorkerError(f"the model cannot be sent to worker processes: {error}") from error
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    """Refuses what pickle would take but a worker could not load."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type | types.FunctionType) and value.__module__ == "__main__":
            raise pickle.PicklingError(f"{value.__qualname__} is defined in the script itself; move it to a module")
        return NotImplemented


def _doing(task: Task | None) -> str:
    if task is None:
        return "while it started"
    doing = f"trained client {task.client}" if task.block is None else "evaluated the model"
    return f"while it {doing} in round {task.round}"


def _error(task: Task | None, kind: str, message: str, trace: str) -> Exception:
    known = getattr(errors, kind, None)
    if known in (ConfigError, DataError):
        error: Exception = known(message)
    elif task is None:
        error = WorkerError(f"the model cannot be loaded in worker processes: {kind}: {message}")
    else:
        error = WorkerError(f"a worker process failed {_doing(task)}: {kind}: {message}")
    error.add_note(trace)
    return error
