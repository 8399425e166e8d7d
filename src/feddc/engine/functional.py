"""The gradient of any module for many clients at once, by ``torch.func``."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from ..types import Rows
from .precision import Precision, autocast


class FunctionalGradient:
    """Adds to ``grads`` (K, P) the gradient of each client's mean cross-entropy at its row of ``params``."""

    def __init__(self, module: nn.Module, params: Rows, grads: Rows, precision: Precision = "float32") -> None:
        self._module = copy.deepcopy(module).to(params.device).train()
        self._params, self._grads, start = {}, [], 0
        self._precision = precision
        for name, parameter in self._module.named_parameters():
            if parameter.requires_grad:
                stop = start + parameter.numel()
                self._params[name] = params[:, start:stop].view(len(params), *parameter.shape)
                self._grads.append(grads[:, start:stop])
                start = stop
        self._gradients = vmap(grad(self._loss))

    def __call__(self, x: Tensor, y: Tensor, share: Tensor | float) -> None:
        """``x`` (K, B, …), ``y`` (K, B); ``share`` is what a sample counts for: 1/B, or (K, B), 0 for padding."""
        shares = share if isinstance(share, Tensor) else torch.full(y.shape, share, dtype=x.dtype, device=x.device)
        found = self._gradients(self._params, x, y, shares)
        for total, name in zip(self._grads, self._params, strict=True):
            total.add_(found[name].flatten(1))

    def _loss(self, params: dict[str, Tensor], x: Tensor, y: Tensor, share: Tensor) -> Tensor:
        with autocast(self._precision, x.device):
            out = functional_call(self._module, params, (x,))
        return (F.cross_entropy(out.to(share.dtype), y, reduction="none") * share).sum()
