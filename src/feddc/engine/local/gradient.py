"""The gradient of a task's loss on a batch, added to a model's flat gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ...data.inputs import Inputs
from ...models import FlatModel
from ...options import Precision
from ...tasks import Classification, Task
from ..evaluation import computed
from .dense import DenseGradient, HalfDenseGradient, Layer, dense_layers

AddGradient: TypeAlias = Callable[[Any, Tensor], None]


def written_out(module: nn.Module, task: Task) -> list[Layer] | None:
    """The layers of a dense network trained by plain cross-entropy, whose gradient is written out; else None."""
    return dense_layers(module) if isinstance(task, Classification) and task.plain else None


def gradient_of(
    model: FlatModel,
    task: Task,
    precision: Precision = "float32",
    loss: Callable[[Inputs, Tensor], Tensor] | None = None,
) -> AddGradient:
    """A function that adds the gradient of the mean loss of a batch (x, y) to ``model.grads``.

    ``loss(x, y)`` is what to take instead: it runs the model itself.
    """
    layers = written_out(model.module, task) if loss is None else None
    if layers is not None:
        kind = DenseGradient if precision == "float32" else HalfDenseGradient
        return kind(layers, model.params, model.grads)

    def autograd(x: Inputs, y: Tensor) -> None:
        with torch.enable_grad():
            if loss is not None:
                torch.autograd.backward(loss(x, y))
                return
            torch.autograd.backward(task.loss(computed(model, x, precision), y))

    return autograd
