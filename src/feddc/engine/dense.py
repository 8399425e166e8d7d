"""The gradient of a fully connected network, written out.

For ``Linear`` layers with ``ReLU`` between them, forward and backward are a handful of matrix products. Writing them by
hand saves what autograd spends on a graph per step, writes gradients straight into flat rows, and takes many clients at
once: parameters and gradients are rows (K, P), a batch is (K, B, D). The SGD kernel uses it with K = 1, the
vectorised executor with a whole cohort.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..types import Rows


class Layer(NamedTuple):
    """One Linear layer: its shape, as in ``module.parameters()``."""

    inputs: int
    outputs: int
    bias: bool


def dense_layers(module: nn.Module) -> list[Layer] | None:
    """The layers of ``Sequential(Flatten?, Linear, ReLU, …, Linear)`` or of a lone Linear; None if it is neither."""
    parts = list(module) if type(module) is nn.Sequential else [module]
    while parts and type(parts[0]) is nn.Flatten and (parts[0].start_dim, parts[0].end_dim) == (1, -1):
        del parts[0]
    linear = [part for part in parts[::2] if type(part) is nn.Linear]
    relu = [part for part in parts[1::2] if type(part) is nn.ReLU]
    alternating = len(parts) == len(linear) + len(relu) == 2 * len(linear) - 1
    parameters = list(module.parameters())
    # A layer or weight used twice, frozen, or changed by a hook is left to autograd.
    unshared = len(parameters) == sum(1 + (each.bias is not None) for each in linear)
    plain = unshared and all(p.requires_grad for p in parameters)
    hooked = any(part._forward_hooks or part._forward_pre_hooks or part._backward_hooks for part in [module, *parts])
    if not alternating or not plain or hooked:
        return None
    return [Layer(each.in_features, each.out_features, each.bias is not None) for each in linear]


class DenseGradient:
    """Adds to ``grads`` (K, P) the gradient of each client's mean cross-entropy at its row of ``params``."""

    def __init__(self, layers: Sequence[Layer], params: Rows, grads: Rows) -> None:
        self._layers = list(zip(_views(layers, params), _views(layers, grads), strict=True))
        self._minus_one = -torch.ones(1, 1, 1, dtype=params.dtype, device=params.device)

    def __call__(self, x: Tensor, y: Tensor, share: Tensor | float) -> None:
        """``x`` (K, B, …), ``y`` (K, B); ``share`` is what a sample counts for: 1/B, or (K, B), 0 for padding."""
        hidden = [x.flatten(2)]
        for (weight, bias), _ in self._layers:
            out = _affine(hidden[-1], weight.transpose(1, 2), bias)  # (K, B, outputs)
            hidden.append(out.relu_() if len(hidden) < len(self._layers) else out)
        delta = torch.softmax(hidden.pop(), dim=2)  # ∂loss/∂logits = softmax − one-hot label
        delta.scatter_add_(2, y.unsqueeze(2), self._minus_one.expand(*y.shape, 1))
        delta.mul_(share.unsqueeze(2) if isinstance(share, Tensor) else share)
        for ((weight, _), (weight_grad, bias_grad)), inputs in zip(self._layers[::-1], hidden[::-1], strict=True):
            _add_product(weight_grad, delta.transpose(1, 2), inputs)
            if bias_grad is not None:
                bias_grad.add_(delta.sum(dim=1, keepdim=True))
            if inputs is not hidden[0]:
                delta = torch.ops.aten.threshold_backward(torch.bmm(delta, weight), inputs, 0)


Views = list[tuple[Tensor, Tensor | None]]


def _views(layers: Sequence[Layer], rows: Rows) -> Views:
    views: Views = []
    start, k = 0, len(rows)
    for inputs, outputs, has_bias in layers:
        middle = start + inputs * outputs
        stop = middle + outputs * has_bias
        weight = rows[:, start:middle].view(k, outputs, inputs)
        views.append((weight, rows[:, middle:stop].view(k, 1, outputs) if has_bias else None))
        start = stop
    return views


def _affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.bmm(x, weight) if bias is None else torch.baddbmm(bias, x, weight)


def _add_product(out: Tensor, a: Tensor, b: Tensor) -> None:
    if len(out) == 1:
        out.baddbmm_(a, b)
    else:  # rows of several clients have a stride, with which baddbmm_ is slow
        out.add_(torch.bmm(a, b))
