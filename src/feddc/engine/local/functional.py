"""The gradient of any module for many clients at once, by ``torch.func``."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from ...data.inputs import Inputs, arguments
from ...options import Precision
from ...tasks import Task
from ...types import LossBatch, Rows, Seen, Vector
from .losses import OwnLoss, as_type, look
from .precision import autocast

NamedTensors = dict[str, Tensor]


class RowsLoss(NamedTuple):
    """A method's own local loss for clients in rows, and what it looks at."""

    own: OwnLoss
    counts: Tensor
    """(K, classes)"""
    received: Vector
    previous: Rows | None

    def first(self, rows: int) -> RowsLoss:
        """That of the first clients."""
        previous = None if self.previous is None else self.previous[:rows]
        return self._replace(counts=self.counts[:rows], previous=previous)


class FunctionalGradient:
    """Adds to ``grads`` (K, P) the gradient of each client's mean loss at its row of ``params``."""

    def __init__(
        self,
        module: nn.Module,
        params: Rows,
        grads: Rows,
        task: Task,
        precision: Precision = "float32",
        loss: RowsLoss | None = None,
    ) -> None:
        self._module = copy.deepcopy(module).to(params.device).train()
        self._task, self._precision = task, precision
        self._params = named(self._module, params)
        self._grads = [each.flatten(1) for each in named(self._module, grads).values()]
        self._own = None if loss is None else loss.own
        self._counts = params.new_zeros(len(params), 1) if loss is None else loss.counts
        self._previous: NamedTensors = {}
        self._received: NamedTensors = {}
        if loss is not None:
            self._still = copy.deepcopy(self._module).eval()
            if loss.own.received:
                self._received = {k: v[0] for k, v in named(self._module, loss.received.unsqueeze(0)).items()}
            if loss.previous is not None:
                self._previous = named(self._module, loss.previous)
        self._gradients = vmap(grad(self._loss))

    def __call__(self, x: Inputs, y: Tensor, share: Tensor | float) -> None:
        """``x`` (K, B, …), ``y`` (K, B, …); ``share`` is what a sample counts for: 1/B, or (K, B), 0 for padding."""
        like = next(iter(self._params.values()))
        shares = share
        if not isinstance(shares, Tensor):
            shares = torch.full(y.shape[:2], shares, dtype=like.dtype, device=like.device)
        found = self._gradients(self._params, x, y, shares, self._counts, self._previous)
        for total, name in zip(self._grads, self._params, strict=True):
            total.add_(found[name].flatten(1))

    def _loss(
        self, params: NamedTensors, x: Inputs, y: Tensor, share: Tensor, counts: Tensor, previous: NamedTensors
    ) -> Tensor:
        with autocast(self._precision, share.device):
            mine = self._seen(self._module, params, x)
        mine = as_type(mine, share.dtype)
        if self._own is None:
            return (self._task.losses(mine.output, y) * share).sum()
        batch = LossBatch(
            losses=self._task.losses,
            target=y,
            own=mine,
            counts=counts,
            received=self._seen(self._still, self._received, x) if self._received else None,
            previous=self._seen(self._still, previous, x) if previous else None,
            real=(share > 0).to(share.dtype),
        )
        return (self._own.loss(batch) * share).sum()

    def _seen(self, module: nn.Module, params: NamedTensors, x: Inputs) -> Seen:
        def run(module: nn.Module, x: Inputs) -> Any:
            positional, keywords = arguments(x)
            out = functional_call(module, params, positional, keywords)
            return out if isinstance(out, Tensor) else getattr(out, "logits", out)

        return look(module, x, self._own is not None and self._own.features, run)


def named(module: nn.Module, rows: Rows) -> NamedTensors:
    """The columns of the rows (K, P) as the module's trainable parameters, each (K, …), as views."""
    found, start = {}, 0
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            stop = start + parameter.numel()
            found[name] = rows[:, start:stop].view(len(rows), *parameter.shape)
            start = stop
    return found
