"""Local training of many clients at once: their parameters are rows (K, P), and one operation makes a step of all.

Every client takes the steps of the kernel in ``kernel.py``: rows are sorted by number of steps, so that those still at
work are always the first ones, and a short batch is filled up with samples that count for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...data.inputs import Inputs, cut, each, ready, take, tensors
from ...types import VECTORS, Correction, Rows
from ..cost import FLOPS, ROW_SECONDS, ROWS_SECONDS, step_flops
from .batches import augmentation, plan
from .dense import DenseRows, HalfDenseRows
from .functional import FunctionalGradient, RowsLoss
from .gradient import written_out
from .kernel import Job, Start

GATHER_BYTES = 4 * 2**20
MOST = 256  # clients at a time: more of them save no more overhead, and take more memory
OVERHEAD = 0.2  # of the work, at the most, is what groups cost more than one of them


class RowTrainer:
    """Trains clients in step with each other, on ``device``."""

    def __init__(self, job: Job, device: torch.device) -> None:
        self.job, self.device = job, device
        self._layers = written_out(job.module, job.federation.task) if job.own is None else None
        self._worth = ROWS_SECONDS / (ROW_SECONDS + step_flops(job) / FLOPS)  # rows that cost what a step costs anyway

    def groups(self, clients: int) -> list[range]:
        """The cut of so many clients into groups that are trained apart, on one core or on several.

        A row's last bits may depend on the rows beside it, so the cut follows from the job and never from the machine:
        as many groups, a power of two, as cost hardly more on one core than a single one.
        """
        count = -(-clients // MOST)
        if self.device.type == "cpu":
            most = min(1 + OVERHEAD * (clients + self._worth) / self._worth, clients / 2)
            while 2 * count <= most:
                count *= 2
        bounds = [clients * i // count for i in range(count + 1)]
        return [range(*ends) for ends in pairwise(bounds)]

    def train(self, clients: Sequence[int], start: Start, correction: Correction) -> tuple[Rows, Rows | None]:
        """The clients' trained parameters, in this order, and what the correction's dual has become.

        ``correction`` has a row for each, or one for all.
        """
        steps = _steps(self.job, start.round, clients)
        # Operations so small are a tenth faster where autograd counts no versions of what they write. Code of the
        # user's, which might keep a tensor for later, is never run there.
        ours = self._layers is not None and self.job.federation.augment is None
        with torch.inference_mode(ours), torch.no_grad():
            params, dual = self._train(clients, start, correction, steps)
        back = torch.empty_like(steps.order)
        back[steps.order] = torch.arange(len(clients))
        return params.cpu()[back], None if dual is None else dual.cpu()[back]

    def _train(
        self, clients: Sequence[int], start: Start, correction: Correction, steps: _Steps
    ) -> tuple[Rows, Rows | None]:
        """The same in the order of ``steps``."""
        training, device, order = self.job.training, self.device, steps.order
        linear, begin, ahead, previous, dual, consensus = (
            None if part is None else part.expand(len(order), -1)[order].to(device)
            for part in (getattr(correction, name) for name in VECTORS)
        )
        own = None
        if self.job.own is not None:
            rows = [self.job.federation.label_counts_of(clients[which]) for which in order.tolist()]
            counts = torch.from_numpy(np.stack(rows)).to(device)
            own = RowsLoss(self.job.own, counts, start.model.to(device), previous)
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
        clip, active = training.clip_norm, 0
        for step, (x, y, share) in enumerate(_batches(self.job, start, clients, steps)):
            if steps.active[step] != active:  # clients with fewer steps are done: θ and g are the rows of the others
                active = steps.active[step]
                theta, g = params[:active], grads[:active]
                add_gradient = self._gradient(theta, g, None if own is None else own.first(active))
                first, pull = None if linear is None else linear[:active], prox[:active]
                free = first is None and not pull.any()
                shrink = _number(1 - lr * decay[:active])  # (k, 1)
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
            if free:
                g.zero_()
            elif first is None:
                torch.mul(here, pull, out=g)
            else:
                torch.addcmul(first, here, pull, out=g)
            add_gradient(x, y, share)
            if kept is not None:
                theta.copy_(here)
            if scaled:
                g.mul_(scale[:active])
            if velocity is not None:
                if clip is not None:
                    g.renorm_(2, 0, clip)  # every row to at most this norm
                v = velocity[:active].mul_(training.momentum).add_(g).addcmul_(theta, decay[:active])
                if ahead is not None:
                    v.addcmul_(ahead[:active], decay[:active], value=-1)
                theta.sub_(v, alpha=lr)
                continue
            theta.mul_(shrink)
            if clip is None:
                theta.sub_(g, alpha=lr)
            else:  # lr · clip / max(norm, clip): clipped and stepped in one pass
                norm = torch.linalg.vector_norm(g, dim=1, keepdim=True).clamp_min_(clip)
                theta.addcdiv_(g, norm, value=-lr * clip)
            if ahead is not None:
                theta.addcmul_(ahead[:active], lr * decay[:active])
        if ahead is not None:
            params -= ahead
        return params, dual

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
        steps, bounds = count[which], plans[which].bounds
        if bounds[-1] == steps * size:  # all batches are full
            rows[:steps, k] = samples[: bounds[-1]].reshape(steps, size)
            length[:steps, k] = size
        else:
            starts, lengths = bounds[:-1, None], np.diff(bounds)[:, None]
            rows[:steps, k] = samples[starts + np.minimum(np.arange(size), lengths - 1)]
            length[:steps, k] = lengths[:, 0]
    active = (count[order] > np.arange(count.max())[:, None]).sum(axis=1).tolist()
    return _Steps(torch.from_numpy(order), active, rows, length)


def _batches(
    job: Job, start: Start, clients: Sequence[int], steps: _Steps
) -> Iterator[tuple[Inputs, Tensor, Tensor | float]]:
    """For every step the samples (k, B, …), the targets (k, B, …), and what each sample counts for."""
    x, y = job.federation.x, job.federation.y
    index = torch.from_numpy(steps.rows).to(y.device)
    labels = y.index_select(0, index.view(-1)).view(*index.shape, *y.shape[1:]).unbind(0)
    size = index.shape[2]
    working = np.arange(len(clients)) < np.array(steps.active)[:, None]
    short = (steps.length < size) & working
    shares = None
    if short.any():
        counts = (np.arange(size) < steps.length[..., None]) / steps.length[..., None]
        shares = torch.from_numpy(counts).to(y.device, start.model.dtype)
    augments = [found for client in steps.order if (found := augmentation(job, start.round, clients[client]))]
    # Samples are fetched for several steps at once, as many as fit into a few megabytes.
    ahead = max(1, GATHER_BYTES // (index[0].numel() * sum(part[0].nbytes for part in tensors(x))))
    for step, k in enumerate(steps.active):
        if step % ahead == 0:
            soon = index[step : step + ahead]
            fetched = _by_step(ready(job.federation.inputs(take(x, soon.view(-1))), start.model.dtype), soon.shape)
        batch, targets = fetched[step % ahead], labels[step]
        if k < len(clients):
            batch, targets = cut(batch, slice(k)), targets[:k]
        for row, augment in enumerate(augments[:k]):
            own = cut(each(lambda part: part[row], batch), slice(steps.length[step, row]))  # noqa: B023
            for old, new in zip(tensors(own), tensors(augment(own)), strict=True):
                old.copy_(new)
        yield batch, targets, 1 / size if shares is None else shares[step, :k]


def _by_step(x: Inputs, lead: torch.Size) -> Sequence[Inputs]:
    """Samples (n, …) as a view (k, B, …) for every step."""
    shaped = each(lambda part: part.view(*lead, *part.shape[1:]), x)
    if isinstance(shaped, Tensor):
        return shaped.unbind(0)  # all views at once: a step is too short to cut its own
    return [each(lambda part: part[step], shaped) for step in range(lead[0])]  # noqa: B023


def _column(part: Tensor | float, rows: int) -> Tensor:
    return part if isinstance(part, Tensor) else torch.full((rows, 1), part, dtype=torch.float64)


def _number(column: Tensor) -> Tensor | float:
    """A column as one number, where it is: faster to multiply by."""
    return float(column[0]) if len(column) and bool((column == column[0]).all()) else column
