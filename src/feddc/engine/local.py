"""Local training: the one SGD kernel that every method uses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from ..data import Federation
from ..errors import DataError
from ..models import Buffers, FlatModel
from ..options import LocalTraining, Precision
from ..types import Correction, Vector
from .dense import DenseGradient, HalfDenseGradient, dense_layers
from .keys import generator
from .precision import autocast


@dataclass(frozen=True)
class Job:
    """Everything that local training needs and that stays the same in every round."""

    module: nn.Module
    federation: Federation
    training: LocalTraining
    seed: int
    fixed_steps: int | None
    """So many steps for every client, or None for ``epochs`` passes over the client's own data."""

    @cached_property
    def memory_format(self) -> torch.memory_format:
        """How images lie in memory: convolutions are faster with the channels last, where the model takes that."""
        sample = self.federation.x[:2]
        if sample.ndim == 4 and any(isinstance(each, nn.Conv2d) for each in self.module.modules()):
            probe = FlatModel(self.module)
            try:
                evaluate(probe, sample, self.federation.y[:2], torch.channels_last)
            except RuntimeError:  # it has a .view() that the other order does not allow
                return torch.contiguous_format
            return torch.channels_last
        return torch.contiguous_format


def steps_column(sizes: NDArray[np.int64], training: LocalTraining, module: nn.Module, fixed: int | None) -> Tensor:
    """The column of K_i: how many steps each client takes, by its number of samples."""
    known, place = np.unique(sizes, return_inverse=True)
    smallest = smallest_batch(module)
    steps = [
        [fixed or training.epochs * len(_starts(int(samples), training.batch_size, smallest))] for samples in known
    ]
    return torch.tensor(steps, dtype=torch.get_default_dtype())[torch.from_numpy(place)]


class Start(NamedTuple):
    """Where a round begins: the global model that the cohort received."""

    round: int
    model: Vector
    buffers: Buffers


def train_client(job: Job, model: FlatModel, client: int, start: Start, correction: Correction) -> None:
    """Train ``model`` in place as ``client`` would in this round; ``correction`` is that client's row."""
    model.load(start.model, start.buffers)
    with torch.random.fork_rng(devices=[]):  # dropout and the like are keyed too
        # Not torch.manual_seed: without a GPU it keeps a traceback of every call for the day one appears.
        torch.default_generator.manual_seed(int(generator(job.seed, "torch", start.round, client).integers(2**63)))
        samples = client_batches(job, start.round, client, model.params.dtype)
        local_sgd(model, samples, correction, job.training, job.training.lr_in(start.round))


def one_row(correction: Correction) -> Correction:
    """The correction of a client on its own, rows (1, P) as vectors and columns (1, 1) as numbers."""
    linear, prox, decay, scale, start, ahead = correction
    vectors = [None if each is None else each.reshape(-1) for each in (linear, start, ahead)]
    return Correction(vectors[0], float(prox), float(decay), float(scale), *vectors[1:])


def client_batches(job: Job, round: int, client: int, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor]]:
    """The samples and labels of each step of a client in a round."""
    x, y = job.federation.client_samples(client)
    x = x.to(dtype) if x.is_floating_point() else x
    augment = augmentation(job, round, client)
    for batch in plan(job, round, client):
        sample = x.index_select(0, batch)  # faster than x[batch]
        if augment is not None:
            sample = augment(sample)
        yield sample.contiguous(memory_format=job.memory_format), y.index_select(0, batch)


def augmentation(job: Job, round: int, client: int) -> Callable[[Tensor], Tensor] | None:
    """What changes the batches of a client in a round, one after the other, if anything does."""
    augment = job.federation.augment
    if augment is None:
        return None
    rng = generator(job.seed, "augment", round, client)
    return lambda batch: augment(batch, rng)


def plan(job: Job, round: int, client: int) -> Batches:
    """Which of its samples a client takes in each step of a round."""
    samples = len(job.federation.clients[client])
    rng = generator(job.seed, "batches", round, client)
    return batches(samples, job.training, rng, job.fixed_steps, smallest_batch(job.module))


@dataclass(frozen=True)
class Batches:
    """The sample indices of each step: step s takes ``order[bounds[s]:bounds[s + 1]]``."""

    order: NDArray[np.int64]
    bounds: NDArray[np.int64]

    def __iter__(self) -> Iterator[Tensor]:
        order, bounds = torch.from_numpy(self.order), self.bounds.tolist()
        return (order[start:stop] for start, stop in pairwise(bounds))

    def __len__(self) -> int:
        """The number of steps."""
        return len(self.bounds) - 1


def batches(
    samples: int, training: LocalTraining, rng: np.random.Generator, steps: int | None = None, smallest: int = 1
) -> Batches:
    """Shuffled passes over the samples, ``training.epochs`` of them or as many as ``steps`` need.

    The last batch of a pass may be short. One of fewer than ``smallest`` samples (BatchNorm cannot train on one) joins
    the one before it.
    """
    if samples < smallest:
        raise DataError("a client has one sample, and a model with BatchNorm needs at least two to train on")
    starts = _starts(samples, training.batch_size, smallest)
    steps = training.epochs * len(starts) if steps is None else steps
    passes = math.ceil(steps / len(starts))
    orders = [np.arange(samples) if len(starts) == 1 else rng.permutation(samples) for _ in range(passes)]
    bounds = np.append((starts + samples * np.arange(passes)[:, None]).ravel(), passes * samples)
    return Batches(np.concatenate(orders), bounds[: steps + 1])


def _starts(samples: int, batch_size: int | None, smallest: int) -> NDArray[np.int64]:
    """Where the batches of one pass begin."""
    size = samples if batch_size is None else min(batch_size, samples)
    starts = np.arange(0, samples, size)
    return starts[:-1] if len(starts) > 1 and samples - starts[-1] < smallest else starts


@torch.no_grad()
def local_sgd(
    model: FlatModel,
    samples: Iterable[tuple[Tensor, Tensor]],
    correction: Correction,
    training: LocalTraining,
    lr: float,
) -> None:
    """SGD on the corrected gradient, as ``Correction`` has it: combine, clip, add weight decay, step.

    With ``training.sam`` the gradient is taken at θ + ρ ∇L(θ)/‖∇L(θ)‖, of the plain loss on the same batch.
    """
    params, grads = model.params, model.grads
    linear, prox, decay, scale, begin, ahead = correction
    prox, scale, decay = float(prox), float(scale), training.weight_decay + float(decay)
    add_gradient = gradient_of(model, training.precision)
    model.train()
    if begin is not None:
        params.add_(begin)
    if ahead is not None:  # θ + ahead is what is stepped, so that gradients are taken there; the pulls are those of θ
        params.add_(ahead)
        linear = ahead * -prox if linear is None else linear - prox * ahead
    if linear is not None and scale != 1:
        linear = linear / scale
    one, row, here = params.new_ones(1), params.unsqueeze(0), params
    kept, velocity = (torch.zeros_like(params) if each else None for each in (training.sam, training.momentum))
    for x, y in samples:
        if kept is not None:
            here = kept.copy_(params)
            grads.zero_()
            add_gradient(x, y)
            params.add_(grads, alpha=training.sam / (float(torch.linalg.vector_norm(grads)) + 1e-7))
        if linear is None:
            torch.mul(here, prox / scale, out=grads)
        else:
            torch.add(linear, here, alpha=prox / scale, out=grads)
        add_gradient(x, y)
        if kept is not None:
            params.copy_(kept)
        share = scale
        if training.clip_norm is not None:
            # The same arithmetic as torch.nn.utils.clip_grad_norm_, folded into the step.
            share *= min(1.0, training.clip_norm / (scale * float(torch.linalg.vector_norm(grads)) + 1e-6))
        if velocity is None:
            row.addr_(one, grads, beta=1 - lr * decay, alpha=-lr * share)  # in one pass over memory
            if ahead is not None:
                params.add_(ahead, alpha=lr * decay)
        else:
            velocity.mul_(training.momentum).add_(grads, alpha=share).add_(params, alpha=decay)
            if ahead is not None:
                velocity.add_(ahead, alpha=-decay)
            params.add_(velocity, alpha=-lr)
    if ahead is not None:
        params.sub_(ahead)


def gradient_of(model: FlatModel, precision: Precision = "float32") -> Callable[[Tensor, Tensor], None]:
    """A function that adds the gradient of the mean cross-entropy of a batch to ``model.grads``."""
    layers = dense_layers(model.module)
    if layers is not None:
        kind = DenseGradient if precision == "float32" else HalfDenseGradient
        return kind(layers, model.params, model.grads)

    def autograd(x: Tensor, y: Tensor) -> None:
        with torch.enable_grad():
            with autocast(precision, x.device):
                out = model.module(x)
            torch.autograd.backward(F.cross_entropy(out.to(model.params.dtype), y))

    return autograd


class Evaluation(NamedTuple):
    """Sums over samples, so that parts can be added."""

    correct: int
    loss: float
    samples: int


@torch.no_grad()
def evaluate(
    model: FlatModel, x: Tensor, y: Tensor, memory_format: torch.memory_format = torch.contiguous_format
) -> Evaluation:
    """Count right answers and add up the loss of a block of samples."""
    model.module.eval()
    x = x.to(model.params.dtype) if x.is_floating_point() else x
    logits = model.module(x.contiguous(memory_format=memory_format))
    loss = F.cross_entropy(logits, y, reduction="sum")
    return Evaluation(int((logits.argmax(dim=1) == y).sum()), float(loss), len(y))


def smallest_batch(module: nn.Module) -> int:
    """The fewest samples that a step may have: BatchNorm cannot train on one."""
    return 2 if any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in module.modules()) else 1
