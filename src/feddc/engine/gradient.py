"""The gradient of a task's loss on a batch, added to a model's flat gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from ..data.inputs import Inputs
from ..models import FlatModel
from ..options import Precision
from ..tasks import Classification, Task
from .dense import DenseGradient, HalfDenseGradient, Layer, dense_layers
from .evaluation import output_of
from .precision import autocast

AddGradient: TypeAlias = Callable[[Any, Tensor], None]


class LocalLoss(Protocol):
    """A local loss of the method's own: what ``algorithm.local_loss`` is, for a method that has one.

    ``losses(output, target)`` is the task's, one number per sample. ``counts`` is how many samples of each class the
    client trains on, (classes,). ``reference`` is the output of the global model of this round for the same samples,
    None unless the method says ``needs_reference = True``. Returns one number per sample.
    """

    def __call__(
        self,
        losses: Callable[[Tensor, Tensor], Tensor],
        output: Tensor,
        target: Tensor,
        counts: Tensor,
        reference: Tensor | None,
    ) -> Tensor: ...


def written_out(module: nn.Module, task: Task) -> list[Layer] | None:
    """The layers of a dense network trained by plain cross-entropy, whose gradient is written out; else None."""
    return dense_layers(module) if isinstance(task, Classification) and task.plain else None


def gradient_of(
    model: FlatModel,
    task: Task,
    precision: Precision = "float32",
    loss: Callable[[Inputs, Any, Tensor], Tensor] | None = None,
) -> AddGradient:
    """A function that adds the gradient of the mean loss of a batch (x, y) to ``model.grads``.

    ``loss(x, output, y)`` is a loss to take instead of the task's.
    """
    layers = written_out(model.module, task) if loss is None else None
    if layers is not None:
        kind = DenseGradient if precision == "float32" else HalfDenseGradient
        return kind(layers, model.params, model.grads)

    def autograd(x: Inputs, y: Tensor) -> None:
        with torch.enable_grad():
            with autocast(precision, model.params.device):
                output = output_of(model.module, x)
            if isinstance(output, Tensor):
                output = output.to(model.params.dtype)
            torch.autograd.backward(task.loss(output, y) if loss is None else loss(x, output, y))

    return autograd
