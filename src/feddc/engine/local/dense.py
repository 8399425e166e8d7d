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

from ...types import Rows, Vector


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
    """Adds to ``grads`` (P,) the gradient of the mean cross-entropy of a batch at ``params`` (P,)."""

    def __init__(self, layers: Sequence[Layer], params: Vector, grads: Vector) -> None:
        *inner, (weight, bias) = views = _views(layers, params)
        self._across = [(bias, weight.t()) for weight, bias in inner]
        self._last = bias.unsqueeze(1), weight
        self._back = [(w, g, b) for (w, _), (g, b) in zip(views, _views(layers, grads), strict=True)][::-1]
        self._ones = params.new_ones(0)

    def __call__(self, x: Tensor, y: Tensor) -> None:
        """``x`` (B, …), ``y`` (B,)."""
        if self._ones.shape != y.shape:
            self._ones = self._ones.new_ones(y.shape)
            self._minus_ones = -self._ones.unsqueeze(0)
        hidden = [x.flatten(1)]
        for bias, weight in self._across:
            hidden.append(torch.addmm(bias, hidden[-1], weight).relu_())  # (B, outputs)
        # With the classes first: a softmax over a few adjacent numbers is slow.
        delta = torch.softmax(torch.addmm(*self._last, hidden[-1].t()), dim=0)  # (outputs, B)
        delta.scatter_add_(0, y.unsqueeze(0), self._minus_ones)  # ∂loss/∂logits = softmax − one-hot label
        delta.mul_(1 / y.shape[0])
        for weight, weight_grad, bias_grad in self._back:
            inputs = hidden.pop()
            weight_grad.addmm_(delta, inputs)
            bias_grad.addmv_(delta, self._ones)
            if hidden:
                delta = _relu_backward(torch.mm(delta.t(), weight), inputs, 0).t()


class DenseRows:
    """Adds to ``grads`` (K, P) the gradient of each client's mean cross-entropy at its row of ``params`` (K, P)."""

    def __init__(self, layers: Sequence[Layer], params: Rows, grads: Rows) -> None:
        *inner, (weight, bias) = views = _views(layers, params)
        self._across = [(bias.unsqueeze(1), weight.mT) for weight, bias in inner]
        self._last = bias.unsqueeze(2), weight
        self._back = [(w, g, b.unsqueeze(1)) for (w, _), (g, b) in zip(views, _views(layers, grads), strict=True)][::-1]
        self._ones = params.new_ones(len(params), 1, 0)

    def __call__(self, x: Tensor, y: Tensor, share: Tensor | float) -> None:
        """``x`` (K, B, …), ``y`` (K, B); ``share`` is what a sample counts for: 1/B, or (K, B), 0 for padding."""
        labels, hidden = y.unsqueeze(1), [x.flatten(2)]
        if self._ones.shape != labels.shape:
            self._ones = self._ones.new_ones(labels.shape)
            self._minus_ones = -self._ones
        for bias, weight in self._across:
            hidden.append(torch.baddbmm(bias, hidden[-1], weight).relu_())  # (K, B, outputs)
        delta = torch.softmax(torch.baddbmm(*self._last, hidden[-1].mT), dim=1)  # (K, outputs, B)
        delta.scatter_add_(1, labels, self._minus_ones)
        delta.mul_(share.unsqueeze(1) if isinstance(share, Tensor) else share)
        for weight, weight_grad, bias_grad in self._back:
            inputs = hidden.pop()
            # Not baddbmm_, which is slow where the rows of several clients have a stride.
            weight_grad.add_(torch.bmm(delta, inputs))
            bias_grad.add_(torch.bmm(self._ones, delta.mT))
            if hidden:
                delta = _relu_backward(torch.bmm(delta.mT, weight), inputs, 0).mT


class HalfDenseGradient:
    """``DenseGradient`` with its products in bfloat16: the rounding of ``torch.autocast``, without its graph."""

    def __init__(self, layers: Sequence[Layer], params: Vector, grads: Vector) -> None:
        self._rows = HalfDenseRows(layers, params.unsqueeze(0), grads.unsqueeze(0))

    def __call__(self, x: Tensor, y: Tensor) -> None:
        """``x`` (B, …), ``y`` (B,)."""
        self._rows(x.unsqueeze(0), y.unsqueeze(0), 1 / y.shape[0])


class HalfDenseRows:
    """``DenseRows`` with its products in bfloat16; softmax, bias gradients and sums stay in float32."""

    def __init__(self, layers: Sequence[Layer], params: Rows, grads: Rows) -> None:
        self._params, self._half = params, params.to(torch.bfloat16)
        views = _views(layers, self._half)
        self._across = [(bias.unsqueeze(1), weight.mT) for weight, bias in views]
        self._back = [(w, g, b) for (w, _), (g, b) in zip(views, _views(layers, grads), strict=True)][::-1]

    def __call__(self, x: Tensor, y: Tensor, share: Tensor | float) -> None:
        """As in ``DenseRows``."""
        self._half.copy_(self._params)
        labels, hidden = y.unsqueeze(2), [x.flatten(2).to(torch.bfloat16)]
        for bias, weight in self._across[:-1]:
            hidden.append(torch.baddbmm(bias, hidden[-1], weight).relu_())  # (K, B, outputs)
        bias, weight = self._across[-1]
        delta = torch.softmax(torch.baddbmm(bias, hidden[-1], weight).to(self._params.dtype), dim=2)
        delta.scatter_add_(2, labels, torch.full_like(labels, -1, dtype=delta.dtype))
        delta.mul_(share.unsqueeze(2) if isinstance(share, Tensor) else share)
        for weight, weight_grad, bias_grad in self._back:
            inputs, half = hidden.pop(), delta.to(torch.bfloat16)
            weight_grad.add_(torch.bmm(half.mT, inputs))
            bias_grad.add_(delta.sum(dim=1))
            if hidden:
                delta = _relu_backward(torch.bmm(half, weight), inputs, 0).to(self._params.dtype)


_relu_backward = torch.ops.aten.threshold_backward


def _views(layers: Sequence[Layer], rows: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Weights ([K,] outputs, inputs) and biases ([K,] outputs); where there is no bias, zeros that belong to nobody."""
    views = []
    start, lead = 0, rows.shape[:-1]
    for inputs, outputs, has_bias in layers:
        middle = start + inputs * outputs
        stop = middle + outputs * has_bias
        bias = rows[..., middle:stop] if has_bias else rows.new_zeros(*lead, outputs)
        views.append((rows[..., start:middle].view(*lead, outputs, inputs), bias))
        start = stop
    return views
