"""Local training: the one SGD kernel that every method uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...data import Federation
from ...data.inputs import Inputs, tensors
from ...data.stored import Mapped
from ...models import Buffers, FlatModel
from ...options import LocalTraining, Precision
from ...types import COLUMNS, Correction, Vector
from ..evaluation import evaluate
from ..keys import generator
from .batches import client_batches, smallest_batch
from .gradient import AddGradient, gradient_of
from .losses import OwnLoss, client_loss
from .optimizers import local_optimizer

EVALUATED = 2**23
"""A model is evaluated on so many samples at once that its layers put out about as many numbers."""


@dataclass(frozen=True)
class Job:
    """Everything that local training needs and that stays the same in every round."""

    module: nn.Module
    federation: Federation
    training: LocalTraining
    seed: int
    fixed_steps: int | NDArray[np.int64] | None
    """So many steps for every client, or for each round and client, or None for ``epochs`` passes over its own data."""
    own: OwnLoss | None = None
    """The method's own local loss, where it has one."""
    evaluate_precision: Precision = "float32"
    """That of the products of an evaluation."""

    @property
    def one_at_a_time(self) -> str | None:
        """What keeps clients from being trained in rows, many at once; None if nothing is known to."""
        if self.training.optimizer != "sgd" or self.training.nesterov:
            return "a local optimiser other than SGD with momentum"
        if self.federation.lazy is not None:
            return "a federation whose samples are read while it trains"
        if any(isinstance(part, Mapped) for part in tensors(self.federation.x)):
            return "a federation whose samples are mapped from a file"
        return None

    @cached_property
    def smallest_batch(self) -> int:
        """The fewest samples that a step may have."""
        return smallest_batch(self.module)

    @cached_property
    def memory_format(self) -> torch.memory_format:
        """The memory layout of images: convolutions are faster with the channels last, where the model takes that."""
        x, y = self.federation.first(2)
        pictures = any(part.ndim == 4 for part in tensors(x))
        if pictures and any(isinstance(each, nn.Conv2d) for each in self.module.modules()):
            probe = FlatModel(self.module)
            try:
                evaluate(probe, x, y, self.federation.task, torch.channels_last)
            except RuntimeError:  # it has a .view() that the other order does not allow
                return torch.contiguous_format
            return torch.channels_last
        return torch.contiguous_format

    @cached_property
    def piece(self) -> int:
        """How many samples the model is evaluated on at a time: a thousand images would take most of the memory that a
        convolutional network ever needs. It depends on the model only, so that the bits do not vary."""
        probe, put_out = FlatModel(self.module), [1]
        for layer in probe.module.modules():
            if not any(True for _ in layer.children()):
                layer.register_forward_hook(lambda _, __, out: put_out.append(getattr(out, "numel", int)()))
        evaluate(probe, *self.federation.first(1), self.federation.task)
        return max(1, EVALUATED // sum(put_out))


def sharpened(training: LocalTraining, algorithm: Any) -> LocalTraining:
    """The local training, with the sharpness-aware steps that a method asks for unless it already has some."""
    return training if training.sam else replace(training, sam=getattr(algorithm, "sam", 0.0))


class Start(NamedTuple):
    """Where a round begins: the global model that the cohort received."""

    round: int
    model: Vector
    buffers: Buffers


def train_client(job: Job, model: FlatModel, client: int, start: Start, correction: Correction) -> Vector | None:
    """Train ``model`` in place as ``client`` would in this round; ``correction`` is that client's row.

    What is returned is what ``correction.dual`` has become.
    """
    model.load(start.model, start.buffers)
    with seeded(int(generator(job.seed, "torch", start.round, client).integers(2**63)), model.params.device):
        samples = client_batches(job, start.round, client, model.params.dtype)
        add_gradient = client_gradient(job, model, client, start, correction.previous)
        return local_sgd(model, samples, correction, job.training, job.training.lr_in(start.round), add_gradient)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Random numbers of this device from ``seed``, for dropout and the like; what was there before comes back."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        # Not torch.manual_seed: without a GPU it keeps a traceback of every call for the day one appears.
        torch.default_generator.manual_seed(seed)
        if device.type != "cpu":
            getattr(torch, device.type).manual_seed(seed)
        yield


def client_gradient(
    job: Job, model: FlatModel, client: int, start: Start, previous: Vector | None = None
) -> AddGradient:
    """What adds the gradient of this client's loss: the task's, or the method's own."""
    task, precision = job.federation.task, job.training.precision
    if job.own is None:
        return gradient_of(model, task, precision)
    counts = torch.from_numpy(job.federation.label_counts_of(client)).to(model.params.device)
    loss = client_loss(job.own, model, task, counts, (start.model, start.buffers), previous, precision)
    return gradient_of(model, task, precision, loss)


def one_row(correction: Correction) -> Correction:
    """The correction of a client on its own, rows (1, P) as vectors and columns (1, 1) as numbers."""
    parts = {name: part for name, part in correction._asdict().items() if part is not None}
    one: dict[str, Any] = {name: float(p) if name in COLUMNS else p.reshape(-1) for name, p in parts.items()}
    return Correction(**one)


@torch.no_grad()
def local_sgd(
    model: FlatModel,
    samples: Iterable[tuple[Inputs, Tensor]],
    correction: Correction,
    training: LocalTraining,
    lr: float,
    add_gradient: AddGradient,
) -> Vector | None:
    """Steps on the corrected gradient, as ``Correction`` has it: combine, clip, add weight decay, step.

    With ``training.sam`` the gradient is taken at θ + ρ ∇L(θ)/‖∇L(θ)‖, of the plain loss on the same batch, and
    ``correction.dual``, where there is one, changes that direction and is returned as the steps left it.
    ``add_gradient(x, y)`` adds ∇L of a batch to ``model.grads``.
    """
    params, grads = model.params, model.grads
    linear, prox, decay, scale, begin, ahead, _, dual, consensus = correction
    linear, begin, ahead, consensus = (
        each if each is None else each.to(params.device) for each in (linear, begin, ahead, consensus)
    )
    dual = dual if dual is None else dual.to(params.device, copy=True)
    prox, scale, decay = float(prox), float(scale), training.weight_decay + float(decay)
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
    optimizer = local_optimizer(training, params)
    pull, clip, shrink = prox / scale, training.clip_norm, 1 - lr * decay
    for x, y in samples:
        if kept is not None:
            here = kept.copy_(params)
            grads.zero_()
            add_gradient(x, y)
            if dual is not None and consensus is not None:
                grads.sub_(dual).sub_(consensus)
            climb = training.sam / (float(torch.linalg.vector_norm(grads)) + 1e-7)
            params.add_(grads, alpha=climb)
            if dual is not None and consensus is not None:
                dual.add_(grads, alpha=climb).sub_(consensus)
        if linear is None:
            torch.mul(here, pull, out=grads)
        else:
            torch.add(linear, here, alpha=pull, out=grads)
        add_gradient(x, y)
        if kept is not None:
            params.copy_(kept)
        share = scale
        if clip is not None:
            # The same arithmetic as torch.nn.utils.clip_grad_norm_, folded into the step.
            share *= min(1.0, clip / (scale * float(torch.linalg.vector_norm(grads)) + 1e-6))
        if optimizer is not None:
            optimizer.step(params, grads.mul_(share), params if ahead is None else params - ahead, decay, lr)
        elif velocity is None:
            row.addr_(one, grads, beta=shrink, alpha=-lr * share)  # in one pass over memory
            if ahead is not None:
                params.add_(ahead, alpha=lr * decay)
        else:
            velocity.mul_(training.momentum).add_(grads, alpha=share).add_(params, alpha=decay)
            if ahead is not None:
                velocity.add_(ahead, alpha=-decay)
            params.add_(velocity, alpha=-lr)
    if ahead is not None:
        params.sub_(ahead)
    return dual
