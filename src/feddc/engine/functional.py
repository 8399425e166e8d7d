"""The gradient of any module for many clients at once, by ``torch.func``."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from ..data.inputs import Inputs, arguments
from ..options import Precision
from ..tasks import Task
from ..types import Rows
from .precision import autocast


class FunctionalGradient:
    """Adds to ``grads`` (K, P) the gradient of each client's mean loss at its row of ``params``."""

    def __init__(
        self, module: nn.Module, params: Rows, grads: Rows, task: Task, precision: Precision = "float32"
    ) -> None:
        self._module = copy.deepcopy(module).to(params.device).train()
        self._params, self._grads, start = {}, [], 0
        self._task, self._precision = task, precision
        for name, parameter in self._module.named_parameters():
            if parameter.requires_grad:
                stop = start + parameter.numel()
                self._params[name] = params[:, start:stop].view(len(params), *parameter.shape)
                self._grads.append(grads[:, start:stop])
                start = stop
        self._gradients = vmap(grad(self._loss))

    def __call__(self, x: Inputs, y: Tensor, share: Tensor | float) -> None:
        """``x`` (K, B, …), ``y`` (K, B, …); ``share`` is what a sample counts for: 1/B, or (K, B), 0 for padding."""
        like = next(iter(self._params.values()))
        shares = share
        if not isinstance(shares, Tensor):
            shares = torch.full(y.shape[:2], shares, dtype=like.dtype, device=like.device)
        found = self._gradients(self._params, x, y, shares)
        for total, name in zip(self._grads, self._params, strict=True):
            total.add_(found[name].flatten(1))

    def _loss(self, params: dict[str, Tensor], x: Inputs, y: Tensor, share: Tensor) -> Tensor:
        positional, named = arguments(x)
        with autocast(self._precision, share.device):
            out = functional_call(self._module, params, positional, named)
        out = out if isinstance(out, Tensor) else getattr(out, "logits", out)
        return (self._task.losses(out.to(share.dtype), y) * share).sum()
