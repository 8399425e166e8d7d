"""Many clients at once (``rows.py``), on one core, on several, or on a GPU.

For models so small that a step is mostly overhead, and the way to use a GPU. Dense networks have their gradient written
out (``dense.py``), others go through ``torch.func``. Results agree with in-process to float tolerance, and have the
same bits whatever the number of processes: a cohort is cut into the same groups, and each is trained by one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from ...data.blocks import Block
from ...data.inputs import cut, each, ready
from ...errors import ConfigError, WorkerError, check, first_line
from ...models import Buffers, FlatModel
from ...options import LocalTraining
from ...types import Rows
from ..evaluation import Evaluation
from ..local.functional import FunctionalGradient, RowsLoss
from ..local.gradient import written_out
from ..local.kernel import Job, Start, client_gradient
from ..local.rows import RowTrainer
from .base import Correct, Parts, Trained, evaluate_block, in_parts, moved, one_thread
from .workers import Workers


class Vectorised:
    """The clients of a cohort in step with each other, on ``device``; on a CPU by so many processes."""

    def __init__(self, job: Job, device: str = "cpu", workers: int = 1) -> None:
        """Raises ConfigError, with the reason, if the model cannot be trained in rows."""
        self.device = torch.device(device)
        self.job = moved(job, self.device)
        self.model = FlatModel(self.job.module)
        check(job.one_at_a_time is None, f"{job.one_at_a_time} trains one client at a time")
        if job.own is not None or written_out(job.module, job.federation.task) is None:
            check_rows(self.job)
        self.rows = RowTrainer(self.job, self.device)
        self.workers = min(workers, len(self.rows.groups(len(job.federation))))
        self._spread: Workers | None = None
        if self.workers > 1:
            try:
                self._spread = Workers(job, self.workers, self.rows)
            except WorkerError:  # a class that cannot be sent: the bits are the same here
                self.workers = 1

    def train(self, clients: Sequence[int], start: Start, correct: Correct) -> Parts:
        groups = self.rows.groups(len(clients))
        if self._spread is not None and len(groups) > 1:
            yield from self._spread.train(clients, start, correct)
            return
        params = start.model.new_empty(len(clients), start.model.numel())
        duals: list[Rows] = []
        with one_thread():
            for group in groups:
                some = [clients[row] for row in group]
                params[group.start : group.stop], dual = self.rows.train(some, start, correct(some))
                duals += [] if dual is None else [dual]
        floats, ints = (each.expand(len(clients), -1) for each in start.buffers)  # check_rows: training leaves them
        yield from in_parts(Trained(params, Buffers(floats, ints), torch.cat(duals) if duals else None), start)

    def measure(self, start: Start, blocks: Sequence[Block]) -> list[Evaluation]:
        if self._spread is not None:
            return self._spread.measure(start, blocks)
        self.model.load(start.model, start.buffers)
        with one_thread():
            return [evaluate_block(self.job, self.model, block) for block in blocks]

    def close(self) -> None:
        if self._spread is not None:
            self._spread.close()


def check_rows(job: Job) -> None:
    """Refuse a model, or a loss, for which ``torch.func`` on padded rows does not give the gradient of autograd."""
    (x, y), task = job.federation.first(3), job.federation.task
    plain = FlatModel(job.module)
    x = ready(x, plain.params.dtype)
    rows, found = plain.params.repeat(2, 1), plain.grads.new_zeros(2, plain.grads.numel())
    lengths = torch.tensor([[len(y)], [max(1, len(y) - 1)]])
    share = ((torch.arange(len(y)) < lengths) / lengths).to(y.device, rows.dtype)
    with torch.random.fork_rng(devices=[]):
        try:
            both = each(lambda part: torch.stack([part, part]), x)
            own = None
            if job.own is not None:
                counts = torch.from_numpy(job.federation.label_counts_of(0)).to(y.device).repeat(2, 1)
                own = RowsLoss(job.own, counts, 0.5 * plain.params, 0.7 * rows)
            FunctionalGradient(job.module, rows, found, task, loss=own)(both, torch.stack([y, y]), share)
        except Exception as error:  # torch.func has many ways to say that it cannot
            raise ConfigError(f"torch.func cannot train the model in rows: {first_line(error)}") from error
        before = [each.clone() for each in plain.module.buffers()]
        begin = Start(1, 0.5 * plain.params, plain.buffers())
        add_gradient = client_gradient(replace(job, training=LocalTraining()), plain, 0, begin, 0.7 * plain.params)
        plain.train()
        for length, row in zip(lengths, found, strict=True):
            plain.grads.zero_()
            add_gradient(cut(x, slice(int(length))), y[: int(length)])
            if not torch.allclose(plain.grads, row, rtol=1e-3, atol=1e-5):
                raise ConfigError("the model cannot be trained in rows: it draws at random or mixes a batch's samples")
    if any(not torch.equal(a, b) for a, b in zip(before, plain.module.buffers(), strict=True)):
        raise ConfigError("the model cannot be trained in rows: it changes its buffers during training")
