"""Cells side by side: each in a process of its own, with its share of the cores.

The processes stay for the next cell. What is going on comes back as a record per round; results are in the run
directories. Ctrl-C is passed on, so that every cell finishes its round and keeps it. A process whose parent is gone
leaves at once: its last checkpoint counts.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any

import cloudpickle
import torch

from .. import errors
from ..engine import Record
from ..engine.executors.choose import CORES, usable_cores
from ..engine.executors.worker import end_with_parent
from ..errors import ConfigError, FedDCError, StoppedError, WorkerError, check_count
from .cells import Cell
from .interrupts import Interrupts
from .runner import Outcome, read_outcome
from .sources import Source
from .study import Listener, Study

_CODE = "import sys; sys.path[:] = {path!r}; from feddc.study.jobs import main; main({control})"


class Processes:
    """The processes of ``jobs`` cells at a time, each with the cell that it is at; none where ``jobs`` is 1."""

    def __init__(self, jobs: int, *, fork: bool = False) -> None:
        """``fork`` copies this process, now: that takes no time, where a fresh interpreter imports torch first.

        It must have no other Python threads yet. A copy cannot use the OpenMP threads that this process may have
        begun, so they are copies only where each has one core, and only on Linux.
        """
        check_count("jobs", jobs)
        self.jobs = jobs
        self.share = max(1, usable_cores() // jobs)
        self.at: dict[Connection, Cell | None] = {}
        self._processes: dict[Connection, _Forked | subprocess.Popen[bytes]] = {}
        if jobs > 1 and fork and self.share == 1 and sys.platform == "linux":
            for _ in range(jobs):
                self._add(*_forked())

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for connection, process in self._processes.items():
            process.kill()
            process.wait()
            if isinstance(process, subprocess.Popen) and process.stdin is not None:
                process.stdin.close()
            connection.close()

    def begin(self, cells: int, setup: bytes) -> None:
        """Have a process for each of so many cells, at most ``jobs``, and tell them what the cells have in common."""
        while len(self.at) < min(self.jobs, cells):
            self._add(*_fresh(self.share))
        for connection in self.at:
            connection.send_bytes(setup)

    def _add(self, connection: Connection, process: _Forked | subprocess.Popen[bytes]) -> None:
        self._processes[connection] = process
        self.at[connection] = None

    def signal(self, by: signal.Signals) -> None:
        """Pass a signal on to those that are at a cell."""
        for connection, process in self._processes.items():
            if self.at[connection] is not None and process.poll() is None:
                process.send_signal(by)

    def death(self, connection: Connection) -> str:
        """How a process ended, in words."""
        code = self._processes[connection].wait()
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


class _Forked(ForkProcess):
    """A copy of this process, with the methods of ``subprocess.Popen`` that are used here."""

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self) -> int:
        self.join()
        return self.exitcode or 0

    def send_signal(self, sig: int) -> None:
        if self.pid is not None:
            os.kill(self.pid, sig)


def _forked() -> tuple[Connection, _Forked]:
    ours, theirs = multiprocessing.Pipe()
    process = _Forked(target=_main_of_copy, args=(theirs, ours))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of OpenBLAS's threads, which it prepares for a fork
        process.start()
    theirs.close()
    return ours, process


def _fresh(share: int) -> tuple[Connection, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", _CODE.format(path=sys.path, control=theirs.fileno())],
            stdin=subprocess.PIPE,  # open as long as we live: the process leaves when it closes
            pass_fds=(theirs.fileno(),),
            env={**os.environ, **_environment(share)},
            process_group=0,  # Ctrl-C reaches only us, and we pass it on
        )
    return Connection(ours.detach()), process


def _environment(share: int) -> dict[str, str]:
    return dict.fromkeys((CORES, "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(share))


def run_side_by_side(
    study: Study, todo: Sequence[Cell], source: Source, listener: Listener, processes: Processes, *, tensorboard: bool
) -> dict[Cell, Outcome]:
    """Run these cells of a study, as many at a time as there are processes; the same results as one after the other."""
    processes.begin(len(todo), _pickled(study, source, tensorboard))
    outcomes: dict[Cell, Outcome] = {}
    waiting, fault = list(todo), None
    again = f"`feddc resume {study.folder}` continues"
    with Interrupts(processes.signal) as interrupts:
        for connection in processes.at:
            _next(processes, connection, study, waiting)
        while busy := {connection: cell for connection, cell in processes.at.items() if cell is not None}:
            ready = wait(list(busy))
            for connection, cell in ((each, cell) for each, cell in busy.items() if each in ready):
                what, *rest = _received(processes, connection)
                if what == "start":
                    listener.on_start(cell, *rest)
                elif what == "record":
                    listener.on_record(cell, *rest)
                else:
                    processes.at[connection] = None
                    if what == "end":
                        outcomes[cell] = read_outcome(study.place(cell))
                        listener.on_end(cell, outcomes[cell])
                    elif fault is None and what == "error":  # the others keep their round, and then it is reported
                        fault = _fault(*rest)
                        processes.signal(signal.SIGINT)
                    if what == "end" and fault is None and interrupts.received is None:
                        _next(processes, connection, study, waiting)
    if fault is not None:
        raise fault
    if interrupts.received is not None:
        raise StoppedError(interrupts.received, f"with {len(todo) - len(outcomes)} of {len(todo)} runs left: {again}")
    return outcomes


def _next(processes: Processes, connection: Connection, study: Study, waiting: list[Cell]) -> None:
    if waiting:
        processes.at[connection] = cell = waiting.pop(0)
        connection.send(study.cells.index(cell))


def _received(processes: Processes, connection: Connection) -> tuple[Any, ...]:
    try:
        message: tuple[Any, ...] = connection.recv()
    except (EOFError, OSError):
        cell = processes.at[connection]
        return "error", "WorkerError", f"the process of {cell.row if cell else ''} {processes.death(connection)}"
    return message


def _pickled(study: Study, source: Source, tensorboard: bool) -> bytes:
    try:
        pickled: bytes = cloudpickle.dumps((study, source, tensorboard))  # also a class that a script defines
        return pickled
    except Exception as error:  # whatever an object of the user's raises
        raise ConfigError(f"these objects cannot be sent to other processes, so leave jobs at 1: {error}") from error


def _fault(kind: str, sentence: str) -> FedDCError:
    known = {each.__name__: each for each in (errors.ConfigError, errors.DataError, errors.RunError)}
    return known.get(kind, WorkerError)(sentence)


class _Sender(Listener):
    """Tells the parent."""

    def __init__(self, parent: Connection) -> None:
        self.parent = parent

    def on_start(self, cell: Cell, executor: str) -> None:
        self.parent.send(("start", executor))

    def on_record(self, cell: Cell, record: Record) -> None:
        self.parent.send(("record", record))


def main(control: int) -> None:
    """What a fresh interpreter does."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    with Connection(control) as parent:
        _serve(parent)


def _main_of_copy(parent: Connection, theirs: Connection) -> None:
    """What a copy does: the same, on one core, without what belongs to the process that it is a copy of."""
    theirs.close()
    os.setpgid(0, 0)
    os.environ.update(_environment(1))
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_original, daemon=True).start()
    _serve(parent)


def _end_with_original() -> None:
    original = multiprocessing.parent_process()
    assert original is not None
    original.join()
    os._exit(0)


def _serve(parent: Connection) -> None:
    """Run the cells that the parent names, until it goes away."""
    Interrupts.sentence = b""  # the parent has said it
    with suppress(EOFError, ConnectionError):
        study: Study
        source: Source
        study, source, tensorboard = pickle.loads(parent.recv_bytes())
        while True:
            cell = study.cells[parent.recv()]
            try:
                study.run_cell(cell, source, _Sender(parent), tensorboard=tensorboard)
                parent.send(("end",))
            except StoppedError:
                parent.send(("stopped",))
            except Exception as error:  # the parent reports it
                known = isinstance(error, FedDCError)
                text = str(error) if known else f"the run of {cell.row} failed: {type(error).__name__}: {error}"
                parent.send(("error", type(error).__name__, text))
