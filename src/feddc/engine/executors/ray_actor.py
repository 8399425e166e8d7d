"""The actor's side of ``ray.py``, and what travels to it: arrays, which Ray maps into each process without a copy."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import ray

from ...data.blocks import Block
from ...data.sharing import filled, named_tensors
from ...models import Buffers, FlatModel
from ...types import Correction
from ..evaluation import Evaluation
from ..local.kernel import Job, Start, train_client
from .base import evaluate_block

Arrays = dict[str, NDArray[Any]]


class RayTrainer:
    """An actor: one process, one thread, one model that is reset in place for every client."""

    def __init__(self, job: Job, arrays: Arrays) -> None:
        torch.set_num_threads(1)
        data = {name: tensor_over(array) for name, array in arrays.items()}
        self.job = replace(job, federation=filled(job.federation, data))
        self.model = FlatModel(job.module)

    def ready(self) -> bool:
        return True

    def pid(self) -> int:
        """For those who want to end it."""
        return os.getpid()

    def train(
        self, clients: Sequence[int], begin: tuple[Any, ...], corrections: Sequence[tuple[Any, ...]]
    ) -> tuple[NDArray[Any], ...]:
        start, rows = _start_from(begin), []
        for client, parts in zip(clients, corrections, strict=True):
            correction = Correction(*(tensor_over(each) if isinstance(each, np.ndarray) else each for each in parts))
            dual = train_client(self.job, self.model, client, start, correction)
            rows.append((self.model.params.clone(), *self.model.buffers(), *([] if dual is None else [dual])))
        return tuple(torch.stack(column).numpy() for column in zip(*rows, strict=True))

    def evaluate(self, begin: tuple[Any, ...], block: Block) -> Evaluation:
        start = _start_from(begin)
        self.model.load(start.model, start.buffers)
        return evaluate_block(self.job, self.model, block)


Actor: Any = ray.remote(num_cpus=1)(RayTrainer)


def arrays_of(job: Job) -> Arrays:
    """The federation's tensors as arrays: Ray maps those into each actor without a copy."""
    return {name: tensor.numpy() for name, tensor in named_tensors(job.federation).items()}


def put(start: Start) -> Any:
    return ray.put((start.round, start.model.numpy(), *(each.numpy() for each in start.buffers)))


def _start_from(begin: tuple[Any, ...]) -> Start:
    round, model, floats, ints = begin
    return Start(round, tensor_over(model), Buffers(tensor_over(floats), tensor_over(ints)))


def plain(correction: Correction) -> tuple[Any, ...]:
    """Vectors as arrays, which Ray keeps in its object store."""
    return tuple(each.numpy() if isinstance(each, Tensor) else each for each in correction)


def tensor_over(array: NDArray[Any]) -> Tensor:
    """A tensor over an array of the object store, which must not be written to, and is not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch says that it cannot be written to
        tensor = torch.from_numpy(array)
    # Where torch would put it: matrix products may round differently on other addresses.
    return tensor if tensor.data_ptr() % 64 == 0 else tensor.clone()
