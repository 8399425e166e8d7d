"""What every executor promises, and the few pieces that they share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch

from ...data.blocks import Block, samples_of_block
from ...data.sharing import ROWS, bare, filled, named_tensors
from ...models import Buffers, FlatModel
from ...types import Correction, Rows
from ..evaluation import Evaluation, evaluate, total
from ..local.kernel import Job, Start

CHUNK_BYTES = 96 * 2**20
PART_BYTES = 2 * 2**20
"""After training, so many bytes of rows are worked on at a time: they stay in cache, and their memory is used again."""


class Trained(NamedTuple):
    """One row per client, in the order in which the clients were asked for; good until the next ``train``."""

    params: Rows
    buffers: Buffers
    dual: Rows | None = None
    """What ``Correction.dual`` has become, where there was one."""


Parts: TypeAlias = Generator[Trained, None, None]
Correct: TypeAlias = Callable[[Sequence[int]], Correction]
"""The correction of these clients, a row each. Asked for when needed: a cohort's need not be held at once."""


class Executor(Protocol):
    """Trains the clients of a cohort from one start, each with its own correction."""

    def train(self, clients: Sequence[int], start: Start, correct: Correct) -> Parts:
        """Train these clients, at most ``chunk_size`` of them; their rows in parts of ``part_size``, in this order.

        A part may come while later ones are still being trained. All parts must be taken, or the generator closed.
        """
        ...

    def measure(self, start: Start, blocks: Sequence[Block]) -> list[Evaluation]:
        """The global model on these blocks of samples, one evaluation each."""
        ...

    def close(self) -> None:
        """Give back what the executor holds; a second call does nothing."""
        ...


def chunk_size(row_bytes: int) -> int:
    """How many clients are processed at a time. It depends on the model's size only, so that the bits do not vary."""
    return max(4, CHUNK_BYTES // row_bytes)


def part_size(row_bytes: int) -> int:
    """How many clients' rows are worked on at a time after training. As for chunks, the model's size decides."""
    return max(1, PART_BYTES // row_bytes)


def parts(rows: Any, size: int) -> Iterator[Any]:
    """A sequence or tensor in parts of at most ``size``."""
    return (rows[i : i + size] for i in range(0, len(rows), size))


def in_parts(trained: Trained, start: Start) -> Parts:
    """The rows of clients that are all trained."""
    params, (floats, ints), dual = trained
    for rows in parts(range(len(params)), part_size(start.model.nbytes)):
        some = slice(rows.start, rows.stop)
        yield Trained(params[some], Buffers(floats[some], ints[some]), None if dual is None else dual[some])


def evaluate_block(job: Job, model: FlatModel, block: Block) -> Evaluation:
    """The loaded model on one block of samples, a piece at a time."""
    starts = range(block.start, block.stop, job.piece)
    pieces = [block._replace(start=start, stop=min(start + job.piece, block.stop)) for start in starts]
    federation, how = job.federation, (job.memory_format, job.evaluate_precision)
    found = [evaluate(model, *samples_of_block(federation, piece), federation.task, *how) for piece in pieces]
    return found[0] if len(found) == 1 else total(found) or found[0]


def moved(job: Job, device: torch.device) -> Job:
    """The job with module and data on the device, the data in the model's type."""
    federation = job.federation
    module = copy.deepcopy(job.module).to(device)
    kind = FlatModel(module).params.dtype
    parts = {
        name: part if name in ROWS else part.to(device, kind if part.is_floating_point() else None)
        for name, part in named_tensors(federation).items()
    }
    return replace(job, module=module, federation=filled(bare(federation), parts))


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread: the bits of a result then do not depend on the machine's number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
