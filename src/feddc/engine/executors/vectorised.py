"""Many clients at once: their parameters are rows (K, P), and one operation makes a step of all of them.

For models so small that a step is mostly overhead, and the way to use a GPU. Dense networks have their gradient written
out (``dense.py``), others go through ``torch.func``. Every client takes the steps of the in-process kernel: rows are
sorted by number of steps, so that those still at work are always the first ones, and a short batch is filled up with
samples that count for nothing. Results agree with in-process to float tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...data.federation import Block
from ...data.inputs import Inputs, cut, each, ready, take, tensors
from ...errors import ConfigError, check
from ...models import Buffers, FlatModel
from ...options import LocalTraining
from ...types import Correction, Rows
from ..dense import DenseRows, HalfDenseRows
from ..evaluation import Evaluation
from ..functional import FunctionalGradient, RowsLoss
from ..gradient import written_out
from ..local import Job, Start, augmentation, client_gradient, plan
from .base import VECTORS, Correct, Parts, Trained, evaluate_block, in_parts, moved, one_thread

GATHER_BYTES = 4 * 2**20
GROUP = 256  # clients at a time: more of them save no more overhead, and take more memory


class Vectorised:
    """The clients of a cohort in step with each other, on ``device``."""

    def __init__(self, job: Job, device: str = "cpu") -> None:
        """Raises ConfigError, with the reason, if the model cannot be trained in rows."""
        self.device = torch.device(device)
        self.job = moved(job, self.device)
        self.model = FlatModel(self.job.module)
        check(job.one_at_a_time is None, f"{job.one_at_a_time} trains one client at a time")
        self._layers = written_out(job.module, job.federation.task) if job.own is None else None
        if self._layers is None:
            check_rows(self.job)

    def train(self, clients: Sequence[int], start: Start, correct: Correct) -> Parts:
        params = start.model.new_empty(len(clients), start.model.numel())
        duals: list[Rows] = []
        with one_thread():
            for first in range(0, len(clients), GROUP):
                group = clients[first : first + GROUP]
                params[first : first + GROUP], dual = self._train_group(group, start, correct(group))
                duals += [] if dual is None else [dual]
        floats, ints = (each.expand(len(clients), -1) for each in start.buffers)  # check_rows: training leaves them
        yield from in_parts(Trained(params, Buffers(floats, ints), torch.cat(duals) if duals else None), start)

    def measure(self, start: Start, blocks: Sequence[Block]) -> list[Evaluation]:
        self.model.load(start.model, start.buffers)
        with one_thread():
            return [evaluate_block(self.job, self.model, block) for block in blocks]

    def close(self) -> None:
        pass

    @torch.no_grad()
    def _train_group(self, clients: Sequence[int], start: Start, correction: Correction) -> tuple[Rows, Rows | None]:
        """The trained rows, and what the correction's dual has become."""
        training, device = self.job.training, self.device
        steps = _steps(self.job, start.round, clients)
        order = steps.order
        linear, begin, ahead, previous, dual, consensus = (
            None if part is None else part.expand(len(order), -1)[order].to(device)
            for part in (getattr(correction, name) for name in VECTORS)
        )
        own = None
        if self.job.own is not None:
            counts = [self.job.federation.label_counts_of(clients[which]) for which in order.tolist()]
            own = RowsLoss(
                self.job.own, torch.from_numpy(np.stack(counts)).to(device), start.model.to(device), previous
            )
        prox, decay, scale = (
            _column(part, len(order))[order].to(device, start.model.dtype)
            for part in (correction.prox, correction.decay, correction.scale)
        )
        lr, decay = training.lr_in(start.round), training.weight_decay + decay
        params = start.model.to(device).repeat(len(clients), 1)  # (K, P)
        if begin is not None:
            params += begin
        if ahead is not None:  # as in local_sgd: θ + ahead is what is stepped
            params += ahead
            linear = ahead * -prox if linear is None else linear - prox * ahead
        scaled = bool((scale != 1).any())
        if linear is not None and scaled:
            linear = linear / scale
        prox = prox / scale
        grads = torch.empty_like(params)
        kept, velocity = (torch.zeros_like(params) if each else None for each in (training.sam, training.momentum))
        active = 0
        for step, (x, y, share) in enumerate(_batches(self.job, start, clients, steps)):
            if steps.active[step] != active:  # clients with fewer steps are done: θ and g are the rows of the others
                active = steps.active[step]
                theta, g = params[:active], grads[:active]
                add_gradient = self._gradient(theta, g, None if own is None else own.first(active))
                first = None if linear is None else linear[:active]
                shrink = 1 - lr * decay[:active]  # (k, 1)
            here = theta
            if kept is not None:
                here = kept[:active].copy_(theta)
                g.zero_()
                add_gradient(x, y, share)
                if dual is not None and consensus is not None:
                    g.sub_(dual[:active]).sub_(consensus[:active])
                climb = training.sam / (torch.linalg.vector_norm(g, dim=1, keepdim=True) + 1e-7)
                theta.addcmul_(g, climb)
                if dual is not None and consensus is not None:
                    dual[:active].addcmul_(g, climb).sub_(consensus[:active])
            if first is None:
                torch.mul(here, prox[:active], out=g)
            else:
                torch.addcmul(first, here, prox[:active], out=g)
            add_gradient(x, y, share)
            if kept is not None:
                theta.copy_(here)
            if scaled:
                g.mul_(scale[:active])
            if training.clip_norm is not None:
                g.renorm_(2, 0, training.clip_norm)  # every row to at most this norm
            if velocity is None:
                theta.mul_(shrink).sub_(g, alpha=lr)
                if ahead is not None:
                    theta.addcmul_(ahead[:active], lr * decay[:active])
            else:
                v = velocity[:active].mul_(training.momentum).add_(g).addcmul_(theta, decay[:active])
                if ahead is not None:
                    v.addcmul_(ahead[:active], decay[:active], value=-1)
                theta.sub_(v, alpha=lr)
        if ahead is not None:
            params -= ahead
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        return params.cpu()[back], None if dual is None else dual.cpu()[back]

    def _gradient(
        self, params: Rows, grads: Rows, own: RowsLoss | None
    ) -> DenseRows | HalfDenseRows | FunctionalGradient:
        if self._layers is not None:
            half = self.job.training.precision == "bf16"
            return (HalfDenseRows if half else DenseRows)(self._layers, params, grads)
        about = self.job.federation.task, self.job.training.precision
        return FunctionalGradient(self.job.module, params, grads, *about, own)


class _Steps(NamedTuple):
    """The batches of a group, clients with the most steps first; T steps of at most B samples."""

    order: Tensor
    """(K,) the group's clients, sorted."""
    active: list[int]
    """(T,) how many clients take part in a step: the first ones."""
    rows: NDArray[np.int64]
    """(T, K, B) rows of the federation's data; a short batch repeats its last sample."""
    length: NDArray[np.int64]
    """(T, K) how many of them count."""


def _steps(job: Job, round: int, clients: Sequence[int]) -> _Steps:
    plans = [plan(job, round, client) for client in clients]
    count = np.array([len(each) for each in plans])
    order = np.argsort(-count, kind="stable")
    size = max(int(np.diff(each.bounds).max()) for each in plans)
    rows = np.zeros((count.max(), len(clients), size), dtype=np.int64)
    length = np.ones((count.max(), len(clients)), dtype=np.int64)
    for k, which in enumerate(order):
        samples = job.federation.clients[clients[which]].numpy()[plans[which].order]
        starts, lengths = plans[which].bounds[:-1, None], np.diff(plans[which].bounds)[:, None]
        rows[: count[which], k] = samples[starts + np.minimum(np.arange(size), lengths - 1)]
        length[: count[which], k] = lengths[:, 0]
    active = (count[order] > np.arange(count.max())[:, None]).sum(axis=1).tolist()
    return _Steps(torch.from_numpy(order), active, rows, length)


def _batches(
    job: Job, start: Start, clients: Sequence[int], steps: _Steps
) -> Iterator[tuple[Inputs, Tensor, Tensor | float]]:
    """For every step the samples (k, B, …), the targets (k, B, …), and what each sample counts for."""
    x, y = job.federation.x, job.federation.y
    index = torch.from_numpy(steps.rows).to(y.device)
    labels = y[index]
    size = index.shape[2]
    working = np.arange(len(clients)) < np.array(steps.active)[:, None]
    short = (steps.length < size) & working
    counts = (np.arange(size) < steps.length[..., None]) / steps.length[..., None]
    shares = torch.from_numpy(counts).to(y.device, start.model.dtype) if short.any() else None
    augments = [found for client in steps.order if (found := augmentation(job, start.round, clients[client]))]
    # Samples are fetched for several steps at once, as many as fit into a few megabytes.
    ahead = max(1, GATHER_BYTES // (index[0].numel() * sum(part[0].nbytes for part in tensors(x))))
    for step, k in enumerate(steps.active):
        if step % ahead == 0:
            soon = index[step : step + ahead]
            fetched = _shaped(ready(job.federation.inputs(take(x, soon.view(-1))), start.model.dtype), soon.shape)
        batch = _at(fetched, step % ahead, k)
        for row, augment in enumerate(augments[:k]):
            own = _at(batch, row, steps.length[step, row])
            for old, new in zip(tensors(own), tensors(augment(own)), strict=True):
                old.copy_(new)
        yield batch, labels[step, :k], 1 / size if shares is None else shares[step, :k]


def _shaped(x: Inputs, lead: torch.Size) -> Inputs:
    """Samples (n, …) as (*lead, …)."""
    return each(lambda part: part.view(*lead, *part.shape[1:]), x)


def _at(x: Inputs, place: int, count: int) -> Inputs:
    """The first ``count`` of ``x[place]``, as a view."""
    return each(lambda part: part[place, :count], x)


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
            reason = str(error).strip().partition("\n")[0]
            raise ConfigError(f"torch.func cannot train the model in rows: {reason}") from error
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


def _column(part: Tensor | float, rows: int) -> Tensor:
    return part if isinstance(part, Tensor) else torch.full((rows, 1), part, dtype=torch.float64)
