"""Running worker processes: starting and stopping them, handing out tasks, and what to say when one fails."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Iterator
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from typing import Any

from ... import errors
from ...errors import ConfigError, DataError, WorkerError
from .shared import SharedMemory
from .worker import Assignment

# Activations are allocated and freed in every step: have the C library keep that memory rather than return it to the
# system and fault it in anew, which was 15 % of the CNN's step.
_KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
_WORKER = (
    "import sys; sys.path[:] = {path!r}; from feddc.engine.executors.worker import main; main({control}, {memory})"
)


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

    def run(self, tasks: Iterator[Assignment]) -> Iterator[tuple[Assignment, Any]]:
        """Do the tasks, in this order, each by whichever worker is free. Results come from when a worker has nothing
        left to do: the caller's work on them then fills the core that waits for the last tasks."""
        results: list[tuple[Assignment, Any]] = []
        busy: dict[Connection, Assignment] = {}
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

    def _collect(self, busy: dict[Connection, Assignment], results: list[tuple[Assignment, Any]]) -> list[Connection]:
        """Wait for an answer; the workers that are free after it."""
        answered = wait(list(busy))
        free = [connection for connection in busy if connection in answered]
        for connection in free:
            task = busy.pop(connection)
            results.append((task, self._result(connection, task)))
        return free

    def _send(self, connection: Connection, task: Assignment) -> None:
        try:
            connection.send_bytes(json.dumps(asdict(task)).encode())
        except OSError:  # nobody at the other end
            raise self._death(connection, task) from None

    def _result(self, connection: Connection, task: Assignment | None) -> Any:
        try:
            outcome, *rest = json.loads(connection.recv_bytes())
        except (EOFError, OSError):
            raise self._death(connection, task) from None
        if outcome == "error":
            raise _error(task, *rest)
        return rest[0]

    def _death(self, connection: Connection, task: Assignment | None) -> WorkerError:
        process = self._processes[connection]
        return WorkerError(
            f"worker process {process.pid} {_fate(process)} {_doing(task)}; "
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


def _fate(process: subprocess.Popen[bytes], seconds: float = 5) -> str:
    """What became of a worker whose end of the line is closed."""
    try:
        code = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return "no longer answers"
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _doing(task: Assignment | None) -> str:
    if task is None:
        return "while it started"
    clients = f"client{'s' if len(task.clients) > 1 else ''} {', '.join(map(str, task.clients))}"
    doing = f"trained {clients}" if task.block is None else "evaluated the model"
    return f"while it {doing} in round {task.round}"


def _error(task: Assignment | None, kind: str, message: str, trace: str) -> Exception:
    known = getattr(errors, kind, None)
    if known in (ConfigError, DataError):
        error: Exception = known(message)
    elif task is None:
        error = WorkerError(f"the model cannot be loaded in worker processes: {kind}: {message}")
    else:
        error = WorkerError(f"a worker process failed {_doing(task)}: {kind}: {message}")
    error.add_note(trace)
    return error
