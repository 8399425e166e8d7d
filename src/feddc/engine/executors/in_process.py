"""The plain executor: for debugging, and the truth for the others."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...data.blocks import Block
from ...models import Buffers, FlatModel
from ...types import Vector
from ..evaluation import Evaluation
from ..local.kernel import Job, Start, one_row, train_client
from .base import Correct, Parts, Trained, evaluate_block, in_parts, moved, one_thread


class InProcess:
    """One client after another, in this process, on one thread; or on ``device``, which any model can use.

    With no device the job is used as it is; with one, "cpu" too, it is moved there as to a GPU.
    """

    def __init__(self, job: Job, device: str | None = None) -> None:
        self.device = None if device is None else torch.device(device)
        self.job = job if self.device is None else moved(job, self.device)
        self.model = FlatModel(self.job.module)

    def train(self, clients: Sequence[int], start: Start, correct: Correct) -> Parts:
        params = start.model.new_empty(len(clients), start.model.numel())
        buffers, duals = list[Buffers](), list[Vector]()
        with one_thread():
            for k, client in enumerate(clients):
                dual = train_client(self.job, self.model, client, start, one_row(correct([client])))
                params[k] = self.model.params
                buffers.append(self.model.buffers())
                duals += [] if dual is None else [dual.cpu()]
        floats, ints = (torch.stack(column) for column in zip(*buffers, strict=True))
        yield from in_parts(Trained(params, Buffers(floats, ints), torch.stack(duals) if duals else None), start)

    def measure(self, start: Start, blocks: Sequence[Block]) -> list[Evaluation]:
        self.model.load(start.model, start.buffers)
        with one_thread():
            return [evaluate_block(self.job, self.model, block) for block in blocks]

    def close(self) -> None:
        pass
