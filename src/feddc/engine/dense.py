"""The gradient of a fully connected network, written out.

For ``Linear`` layers with ``ReLU`` between them, forward and backward are a handful of matrix products. Writing them by
hand saves what autograd spends on a graph per step, writes gradients straight into flat rows, and takes many clients at
once: parameters and gradients are then rows (K, P), and a batch is (K, B, D). The SGD kernel uses it for one client,
the vectorised executor for a whole cohort.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn


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
    """Adds to ``grads`` the gradient of the mean cross-entropy at ``params``: vectors (P,), or rows (K, P)."""

    def __init__(self, layers: Sequence[Layer], params: Tensor, grads: Tensor) -> None:
        *self._inner, self._last = zip(_views(layers, params), _views(layers, grads), strict=True)
        self._ones = params.new_ones(*params.shape[:-1], 1, 0)

    def __call__(self, x: Tensor, y: Tensor, share: Tensor | float) -> None:
        """``x`` ([K,] B, …), ``y`` ([K,] B); ``share`` is what a sample counts for: 1/B, or like y, 0 for padding."""
        labels, hidden = y.unsqueeze(-2), [x.flatten(y.ndim)]
        if self._ones.shape != labels.shape:
            self._ones = self._ones.new_ones(labels.shape)  # ([K,] 1, B)
            self._minus_ones = -self._ones
        for (weight, bias), _ in self._inner:
            hidden.append(_affine(bias, hidden[-1], weight.mT).relu_())  # (B, outputs)
        (weight, bias), _ = self._last
        # With the classes first: a softmax over a few numbers that lie side by side is slow.
        delta = torch.softmax(_affine(None if bias is None else bias.mT, weight, hidden[-1].mT), dim=-2)
        delta.scatter_add_(-2, labels, self._minus_ones)  # ∂loss/∂logits = softmax − one-hot label
        delta = delta.mul_(share.unsqueeze(-2) if isinstance(share, Tensor) else share).mT
        for (weight, _), (weight_grad, bias_grad) in [self._last, *self._inner[::-1]]:
            inputs = hidden.pop()
            _add_product(weight_grad, delta.mT, inputs)
            if bias_grad is not None:
                _add_product(bias_grad, self._ones, delta)
            if hidden:
                delta = torch.ops.aten.threshold_backward(torch.matmul(delta, weight), inputs, 0)


Views = list[tuple[Tensor, Tensor | None]]


def _views(layers: Sequence[Layer], rows: Tensor) -> Views:
    """Weights ([K,] outputs, inputs) and biases ([K,] 1, outputs)."""
    views: Views = []
    start, lead = 0, rows.shape[:-1]
    for inputs, outputs, has_bias in layers:
        middle = start + inputs * outputs
        stop = middle + outputs * has_bias
        weight = rows[..., start:middle].view(*lead, outputs, inputs)
        views.append((weight, rows[..., middle:stop].view(*lead, 1, outputs) if has_bias else None))
        start = stop
    return views


def _affine(bias: Tensor | None, a: Tensor, b: Tensor) -> Tensor:
    if bias is None:
        return torch.matmul(a, b)
    return torch.addmm(bias, a, b) if a.ndim == 2 else torch.baddbmm(bias, a, b)


def _add_product(out: Tensor, a: Tensor, b: Tensor) -> None:
    if out.ndim == 2:
        out.addmm_(a, b)
    else:  # rows of several clients have a stride, with which baddbmm_ is slow
        out.add_(torch.bmm(a, b))
