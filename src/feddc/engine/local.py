"""Local training: the one SGD kernel that every method uses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from ..data import Federation
from ..errors import DataError, check_count, check_number
from ..models import Buffers, FlatModel
from ..types import Correction, Vector
from .keys import generator


@dataclass(frozen=True)
class LocalTraining:
    """How clients train; the defaults are the paper's for image data.

    ``batch_size=None`` is the full batch, ``clip_norm=None`` no clipping. Round t (from 1) uses the learning rate
    lr · lr_decay^(t−1).
    """

    epochs: int = 5
    batch_size: int | None = 50
    lr: float = 0.1
    lr_decay: float = 0.998
    weight_decay: float = 1e-3
    clip_norm: float | None = 10.0

    def __post_init__(self) -> None:
        check_count("epochs", self.epochs)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)
        check_number("lr", self.lr, 0, above=True)
        check_number("lr_decay", self.lr_decay, 0, 1, above=True)
        check_number("weight_decay", self.weight_decay, 0)
        if self.clip_norm is not None:
            check_number("clip_norm", self.clip_norm, 0, above=True)

    def nominal_steps(self, sizes: NDArray[np.int64]) -> int:
        """K = epochs × ceil(mean samples / batch size), one number for all clients."""
        per_epoch = 1 if self.batch_size is None else math.ceil(float(np.mean(sizes)) / self.batch_size)
        return self.epochs * per_epoch


@dataclass(frozen=True)
class Job:
    """Everything that local training needs and that stays the same in every round."""

    module: nn.Module
    federation: Federation
    training: LocalTraining
    seed: int
    fixed_steps: int | None
    """So many steps for every client, or None for ``epochs`` passes over the client's own data."""


class Start(NamedTuple):
    """Where a round begins: the global model that the cohort received."""

    round: int
    model: Vector
    buffers: Buffers


def train_client(job: Job, model: FlatModel, client: int, start: Start, correction: Correction) -> None:
    """Train ``model`` in place as ``client`` would in this round; ``correction`` is that client's row."""
    training = job.training
    x, y = job.federation.client_samples(client)
    x = x.to(model.params.dtype) if x.is_floating_point() else x
    model.load(start.model, start.buffers)
    order = generator(job.seed, "batches", start.round, client)
    smallest = 2 if _has_batch_norm(job.module) else 1
    plan = batches(len(y), training, order, job.fixed_steps, smallest)
    with torch.random.fork_rng(devices=[]):  # dropout and the like are keyed too
        torch.manual_seed(int(generator(job.seed, "torch", start.round, client).integers(2**63)))
        local_sgd(model, x, y, plan, correction, training, training.lr * training.lr_decay ** (start.round - 1))


def batches(
    samples: int, training: LocalTraining, rng: np.random.Generator, steps: int | None = None, smallest: int = 1
) -> Iterator[Tensor]:
    """The sample indices of each step: shuffled passes, the last batch of a pass may be short.

    A last batch of fewer than ``smallest`` samples (BatchNorm cannot train on one) joins the one before it.
    """
    if samples < smallest:
        raise DataError("a client has one sample, and a model with BatchNorm needs at least two to train on")
    size = samples if training.batch_size is None else min(training.batch_size, samples)
    starts = list(range(0, samples, size))
    if len(starts) > 1 and samples - starts[-1] < smallest:
        starts.pop()
    total = training.epochs * len(starts) if steps is None else steps
    for step in range(total):
        place = step % len(starts)
        if place == 0:
            order = torch.arange(samples) if len(starts) == 1 else torch.from_numpy(rng.permutation(samples))
        yield order[starts[place] : starts[place + 1] if place + 1 < len(starts) else samples]


def local_sgd(
    model: FlatModel,
    x: Tensor,
    y: Tensor,
    plan: Iterator[Tensor],
    correction: Correction,
    training: LocalTraining,
    lr: float,
) -> None:
    """SGD on the corrected gradient: add ``linear + prox·θ``, clip, add weight decay, step."""
    params, grads = model.params, model.grads
    linear, prox = correction.linear, float(correction.prox)
    shrink = 1 - lr * (training.weight_decay + float(correction.decay))
    model.module.train()
    for batch in plan:
        grads.zero_()
        loss = F.cross_entropy(model.module(x[batch]), y[batch])
        torch.autograd.backward(loss)
        with torch.no_grad():
            if linear is not None:
                grads.add_(linear)
            if prox:
                grads.add_(params, alpha=prox)
            rate = lr
            if training.clip_norm is not None:
                # The same arithmetic as torch.nn.utils.clip_grad_norm_, folded into the step.
                rate *= min(1.0, training.clip_norm / (float(torch.linalg.vector_norm(grads)) + 1e-6))
            params.mul_(shrink).add_(grads, alpha=-rate)


class Evaluation(NamedTuple):
    """Sums over samples, so that parts can be added."""

    correct: int
    loss: float
    samples: int


@torch.no_grad()
def evaluate(model: FlatModel, x: Tensor, y: Tensor) -> Evaluation:
    """Count right answers and add up the loss of a block of samples."""
    model.module.eval()
    logits = model.module(x.to(model.params.dtype) if x.is_floating_point() else x)
    loss = F.cross_entropy(logits, y, reduction="sum")
    return Evaluation(int((logits.argmax(dim=1) == y).sum()), float(loss), len(y))


def _has_batch_norm(module: nn.Module) -> bool:
    return any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in module.modules())
