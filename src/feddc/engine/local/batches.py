"""The batches of a client in a round: which samples each step takes, how many steps there are, and the samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...data.inputs import Inputs, ready, take, tensors
from ...data.lazy import LazyBatches
from ...errors import DataError, check
from ...options import LocalTraining
from ..keys import generator

if TYPE_CHECKING:
    from .kernel import Job

LARGE = 2**24
"""A client with more numbers than this has them made floats a batch at a time."""


def client_batches(job: Job, round: int, client: int, dtype: torch.dtype) -> Iterator[tuple[Inputs, Tensor]]:
    """The samples and targets of each step of a client in a round."""
    federation, augment = job.federation, augmentation(job, round, client)
    if federation.lazy is not None:
        samples = _read(job, round, client)
    else:
        rows = federation.clients[client]
        x, y = take(federation.x, rows), federation.y.index_select(0, rows.to(federation.y.device))
        small = sum(part.numel() for part in tensors(x)) <= LARGE
        x = ready(federation.inputs(x), dtype) if small else x
        samples = _taken(x, y, plan(job, round, client))
        if small and augment is None and job.memory_format is torch.contiguous_format:
            return samples  # nothing is left to be done to a batch
        if not small:
            samples = ((federation.inputs(sample), target) for sample, target in samples)
    if augment is not None:
        samples = ((augment(sample), target) for sample, target in samples)
    return ((ready(sample, dtype, job.memory_format), target) for sample, target in samples)


def _taken(x: Inputs, y: Tensor, batches: Batches) -> Iterator[tuple[Inputs, Tensor]]:
    """The batches of samples in memory, which a client's are brought together in once."""
    if isinstance(x, Tensor) and x.device == y.device:
        return ((x.index_select(0, batch), y.index_select(0, batch)) for batch in batches.on(y.device))
    return ((take(x, batch), y.index_select(0, batch)) for batch in batches.on(y.device))


def _read(job: Job, round: int, client: int) -> Iterator[tuple[Inputs, Tensor]]:
    """The batches of samples that are read while training."""
    lazy, rows = job.federation.lazy, job.federation.clients[client]
    assert lazy is not None
    batches = LazyBatches(lazy.train, [rows[batch] for batch in plan(job, round, client)], (job.seed, round, client))
    return batches.read(lazy.readers)


def augmentation(job: Job, round: int, client: int) -> Callable[[Inputs], Inputs] | None:
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
    fixed = job.fixed_steps
    steps = int(fixed[round - 1, client]) if isinstance(fixed, np.ndarray) else fixed
    return batches(samples, job.training, rng, steps, job.smallest_batch)


@dataclass(frozen=True)
class Batches:
    """The sample indices of each step: step s takes ``order[bounds[s]:bounds[s + 1]]``."""

    order: NDArray[np.int64]
    bounds: NDArray[np.int64]

    def __iter__(self) -> Iterator[Tensor]:
        return self.on(torch.device("cpu"))

    def on(self, device: torch.device) -> Iterator[Tensor]:
        """The indices of each step, on this device."""
        order, bounds = torch.from_numpy(self.order).to(device), self.bounds.tolist()
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
    steps = (training.steps or training.epochs * len(starts)) if steps is None else steps
    passes = math.ceil(steps / len(starts))
    orders = [np.arange(samples) if len(starts) == 1 else rng.permutation(samples) for _ in range(passes)]
    bounds = np.append((starts + samples * np.arange(passes)[:, None]).ravel(), passes * samples)
    return Batches(np.concatenate(orders), bounds[: steps + 1])


def _starts(samples: int, batch_size: int | None, smallest: int) -> NDArray[np.int64]:
    """Where the batches of one pass begin."""
    size = samples if batch_size is None else min(batch_size, samples)
    starts = np.arange(0, samples, size)
    return starts[:-1] if len(starts) > 1 and samples - starts[-1] < smallest else starts


def steps_column(sizes: NDArray[np.int64], training: LocalTraining, module: nn.Module, fixed: int | None) -> Tensor:
    """The column of K_i: how many steps each client takes, by its number of samples."""
    known, place = np.unique(sizes, return_inverse=True)
    smallest = smallest_batch(module)
    steps = [
        [fixed or training.steps or training.epochs * len(_starts(int(samples), training.batch_size, smallest))]
        for samples in known
    ]
    return torch.tensor(steps, dtype=torch.get_default_dtype())[torch.from_numpy(place)]


def given_steps(steps: Any, rounds: int, clients: int) -> NDArray[np.int64]:
    """The number of steps of every client in every round, as given; one sentence if it is not that."""
    found = np.asarray(steps)
    good = found.ndim == 2 and len(found) >= rounds and found.shape[1] == clients and found.dtype.kind in "iu"
    check(good, f"steps must be whole numbers of shape ({rounds} rounds, {clients} clients), not {found.shape}")
    check(bool((found[:rounds] >= 0).all()), "steps must not be negative")
    whole: NDArray[np.int64] = np.maximum(found, 1).astype(np.int64)
    return whole  # a client that does not take part may have 0


def smallest_batch(module: nn.Module) -> int:
    """The fewest samples that a step may have: BatchNorm cannot train on one."""
    return 2 if any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in module.modules()) else 1
