"""Cells side by side: each in a process of its own, with its share of the cores.

The processes are fresh interpreters, as the engine's workers are, and stay for the next cell. What is going on comes
back as a record per round; results are in the run directories. Ctrl-C is passed on, so that every cell finishes its
round and keeps it. A process whose parent is gone leaves at once: its last checkpoint counts.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from .. import errors
from ..engine import Record
from ..engine.executors.choose import CORES, usable_cores
from ..engine.executors.worker import end_with_parent
from ..errors import ConfigError, FedDCError, StoppedError, WorkerError
from .cells import Cell
from .interrupts import Interrupts
from .runner import Outcome, read_outcome
from .sources import Source
from .study import Listener, Study

_CODE = "import sys; sys.path[:] = {path!r}; from feddc.study.jobs import main; main({control})"


class Processes:
    """Running processes, each with the cell that it is at."""

    def __init__(self, count: int, setup: bytes) -> None:
        self.at: dict[Connection, Cell | None] = {}
        self._processes: dict[Connection, subprocess.Popen[bytes]] = {}
        share = {CORES: str(max(1, usable_cores() // count))}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), share[CORES])
        for _ in range(count):
            ours, theirs = socket.socketpair()
            code = _CODE.format(path=sys.path, control=theirs.fileno())
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-c", code],
                    stdin=subprocess.PIPE,  # open as long as we live: the process leaves when it closes
                    pass_fds=(theirs.fileno(),),
                    env={**os.environ, **threads, **share},
                    process_group=0,  # Ctrl-C reaches only us, and we pass it on
                )
            connection = Connection(ours.detach())
            self._processes[connection] = process
            self.at[connection] = None
            connection.send_bytes(setup)

    def signal(self, by: signal.Signals) -> None:
        """Pass a signal on to those that are at a cell."""
        for connection, process in self._processes.items():
            if self.at[connection] is not None and process.poll() is None:
                process.send_signal(by)

    def death(self, connection: Connection) -> str:
        """How a process ended, in words."""
        code = self._processes[connection].wait()
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def close(self) -> None:
        for connection, process in self._processes.items():
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
            connection.close()


def run_side_by_side(
    study: Study, todo: Sequence[Cell], source: Source, listener: Listener, *, jobs: int, tensorboard: bool
) -> dict[Cell, Outcome]:
    """Run these cells of a study, ``jobs`` at a time; the same results as one after the other."""
    setup = _pickled(study, source, tensorboard)
    outcomes: dict[Cell, Outcome] = {}
    waiting, fault = list(todo), None
    again = f"`feddc resume {study.folder}` continues"
    processes = Processes(min(jobs, len(todo)), setup)
    with Interrupts(processes.signal) as interrupts:
        try:
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
        finally:
            processes.close()
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
        return pickle.dumps((study, source, tensorboard))
    except Exception as error:  # whatever an object of the user's raises
        raise ConfigError(
            f"these objects cannot be sent to other processes, so leave jobs at 1, or define them in a module: {error}"
        ) from error


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
    """Run the cells that the parent names, until it goes away."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    Interrupts.sentence = b""  # the parent has said it
    with Connection(control) as parent, suppress(EOFError, ConnectionError):
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
