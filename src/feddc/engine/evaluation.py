"""Evaluation: sums over samples, so that parts can be added whoever computed them, and the numbers of a record."""

from __future__ import annotations

import base64
import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..data.inputs import Inputs, arguments, ready
from ..models import FlatModel
from ..options import Precision
from ..tasks import Task
from ..tasks.checks import alongside
from .local.precision import autocast


class Evaluation(NamedTuple):
    """What a task measured on some samples."""

    samples: int
    sums: dict[str, Tensor]
    """The sum over samples of the loss and of each measure, in double precision."""
    seen: tuple[Tensor, ...] = ()
    """Outputs and targets, for measures that are no mean over samples.

    Not the states of the torchmetrics objects: ``update`` applies a sigmoid or softmax to a batch if any of its outputs
    is outside 0..1, so a block of logits that are all inside would be on another scale than its neighbours, and the
    value would depend on how the samples are cut. Costs the outputs of all samples in memory.
    """


def output_of(module: nn.Module, x: Inputs) -> Any:
    """What a model says of a batch; of a model whose output has ``logits``, as Hugging Face's have, those."""
    positional, named = arguments(x)
    found = module(*positional, **named)
    return found if isinstance(found, Tensor) else getattr(found, "logits", found)


def computed(model: FlatModel, x: Inputs, precision: Precision) -> Any:
    """What a model says of a batch, in the model's own type whatever the precision of its products."""
    with autocast(precision, model.params.device):
        output = output_of(model.module, x)
    return output.to(model.params.dtype) if isinstance(output, Tensor) else output


@torch.no_grad()
def evaluate(
    model: FlatModel,
    x: Inputs,
    y: Tensor,
    task: Task,
    memory_format: torch.memory_format = torch.contiguous_format,
    precision: Precision = "float32",
) -> Evaluation:
    """Measure a block of samples; what ``precision`` rounds is the model's products, not what is made of its output."""
    model.module.eval()
    output = computed(model, ready(x, model.params.dtype, memory_format), precision)
    found = {"loss": task.losses(output, y), **task.measures(output, y)}
    sums = {name: values.to(torch.float64).sum(dim=0).cpu() for name, values in found.items()}
    return Evaluation(len(y), sums, (output.cpu(), y.cpu()) if task.collectors() else ())


def total(parts: Sequence[Evaluation]) -> Evaluation | None:
    """The sum of evaluations, added in the order given; None if there are none."""
    if not parts:
        return None
    samples = sum(part.samples for part in parts)
    sums = {name: sum((part.sums[name] for part in parts[1:]), parts[0].sums[name]) for name in parts[0].sums}
    return Evaluation(samples, sums, tuple(map(torch.cat, zip(*(part.seen for part in parts), strict=True))))


def metrics_of(found: Evaluation, task: Task) -> dict[str, float]:
    """The numbers of a record. A measure that is not defined on these samples, such as an AUROC of one class, is left
    out; a loss that is not finite stays, so that the run can be ended."""
    metrics = task.finish({name: value / found.samples for name, value in found.sums.items()})
    for name, metric in task.collectors().items():
        metrics[name] = _computed(metric, *found.seen)
    return {name: value for name, value in metrics.items() if name == "loss" or math.isfinite(value)}


def _computed(metric: Any, output: Tensor, target: Tensor) -> float:
    """The measure, NaN where it is not defined: torchmetrics raises there, or warns and gives a number."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            metric.update(alongside(output, target), target)
            value = float(metric.compute())
        except (ValueError, RuntimeError, IndexError):
            return math.nan
    return math.nan if any("meaningless" in str(each.message) for each in said) else value


def packed(found: Evaluation) -> list[Any]:
    """An evaluation as JSON can hold it, for the way between processes."""
    sums = {name: _pack(each) for name, each in found.sums.items()}
    return [found.samples, sums, [_pack(each) for each in found.seen]]


def unpacked(content: Sequence[Any]) -> Evaluation:
    """The inverse of ``packed``."""
    samples, sums, seen = content
    return Evaluation(samples, {name: _unpack(each) for name, each in sums.items()}, tuple(map(_unpack, seen)))


def _pack(tensor: Tensor) -> list[Any]:
    array = tensor.contiguous().numpy()
    return [base64.b64encode(array.tobytes()).decode(), str(array.dtype), list(array.shape)]


def _unpack(content: Sequence[Any]) -> Tensor:
    text, kind, shape = content
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), kind).reshape(shape).copy())
