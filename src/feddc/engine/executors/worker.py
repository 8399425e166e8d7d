"""The worker's side of ``workers.py``: one process, one thread, one model that is reset in place for every client.

The first message is the job, pickled. After that only JSON travels: a task comes in, ``["done", result]`` or
``["error", class, message, traceback]`` goes out. Vectors and rows are read and written in shared memory.
"""

from __future__ import annotations

import json
import os
import pickle
import threading
import traceback
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import torch

from ...data.blocks import Block
from ...data.sharing import filled
from ...models import Buffers, FlatModel
from ...types import COLUMNS, Correction
from ..evaluation import packed
from ..local.kernel import Job, Start, one_row, train_client
from ..local.rows import RowTrainer
from .base import evaluate_block
from .shared import SharedMemory, TensorLayout

DATA = "data."
"""What the names of the federation's tensors in shared memory begin with."""


@dataclass(frozen=True)
class Assignment:
    """Train ``clients``, whose rows begin with ``row``, or evaluate on the samples of ``block``."""

    round: int
    row: int = 0
    clients: tuple[int, ...] = ()
    """One client, or, where they are trained in rows, several."""
    vectors: tuple[str, ...] = ()
    """Which of ``VECTORS`` have rows in shared memory, as all ``COLUMNS`` do."""
    block: Block | None = None


@dataclass(frozen=True)
class Setup:
    """What a worker is sent once. The federation's tensors are not in ``job`` but in shared memory."""

    job: Job
    layout: TensorLayout
    rows: bool
    """Whether clients are trained in rows."""


class Worker:
    """Does tasks, one at a time."""

    def __init__(self, setup: Setup, memory: SharedMemory) -> None:
        self.memory = memory
        data = {name.removeprefix(DATA): memory[name] for name in setup.layout if name.startswith(DATA)}
        self.job = replace(setup.job, federation=filled(setup.job.federation, data))
        self.model = FlatModel(setup.job.module)
        self.rows = RowTrainer(self.job, torch.device("cpu")) if setup.rows else None

    def do(self, task: Assignment) -> list[Any] | None:
        """Do one task; what JSON can hold of its result."""
        memory = self.memory
        start = Start(task.round, memory["model"], Buffers(memory["floats"], memory["ints"]))
        if task.block is not None:
            self.model.load(start.model, start.buffers)
            return packed(evaluate_block(self.job, self.model, Block(*task.block)))
        rows = slice(task.row, task.row + len(task.clients))
        correction = Correction(**{name: memory[name][rows] for name in (*COLUMNS, *task.vectors)})
        if self.rows is not None:
            memory["params"][rows], duals = self.rows.train(task.clients, start, correction)
            if duals is not None:
                memory["dual"][rows] = duals
            memory["row_floats"][rows], memory["row_ints"][rows] = start.buffers  # training in rows leaves them
            return None
        (client,) = task.clients
        dual = train_client(self.job, self.model, client, start, one_row(correction))
        if dual is not None:
            memory["dual"][task.row] = dual
        memory["params"][task.row] = self.model.params
        memory["row_floats"][task.row], memory["row_ints"][task.row] = self.model.buffers()
        return None


def main(control: int, memory: int) -> None:
    """Serve the parent at the other end of the socket ``control``, until it goes away."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    with Connection(control) as parent, suppress(EOFError, ConnectionError):  # the parent went away: so do we
        try:
            setup: Setup = pickle.loads(parent.recv_bytes())
            worker = Worker(setup, SharedMemory(setup.layout, memory))
            reply: list[Any] = ["done", None]
        except (EOFError, ConnectionError):
            raise
        except Exception as error:  # whatever the user's module raises when it is loaded: the parent reports it
            reply = _failure(error)
        while True:
            parent.send_bytes(json.dumps(reply).encode())
            task = Assignment(**json.loads(parent.recv_bytes()))
            try:
                reply = ["done", worker.do(task)]
            except Exception as error:  # the parent reports it
                reply = _failure(error)


def _failure(error: Exception) -> list[Any]:
    return ["error", type(error).__name__, str(error), "".join(traceback.format_exception(error))]


def end_with_parent() -> None:
    """Leave when the parent does, however it went and whatever is being computed: its end of our stdin closes."""
    os.read(0, 1)  # not sys.stdin, whose lock would be held when the interpreter ends
    os._exit(0)
