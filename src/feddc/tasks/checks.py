"""What tasks share: targets, outputs and options that are checked, and sums that are divided."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..errors import ConfigError, DataError, check, check_number


def name_of(task: object) -> str:
    """What messages call a task."""
    return type(task).__name__


def shape_of(output: Any) -> str:
    return f"of shape {tuple(output.shape)}" if isinstance(output, Tensor) else f"({type(output).__name__})"


def per_sample(values: Any, samples: int, what: str) -> Tensor:
    """Refuse a loss or measure that is not one number per sample."""
    if not isinstance(values, Tensor) or values.shape[:1] != (samples,) or values.numel() != samples:
        found = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else f"a {type(values).__name__}"
        raise ConfigError(
            f"the {what} must be one number per sample, shape ({samples},) for {samples} samples, not {found}: "
            "use reduction='none' and average over all other dimensions"
        )
    return values.reshape(samples)


def finite(y: Tensor, what: str) -> Tensor:
    """Targets as 32-bit floats; DataError where one is NaN or Inf."""
    good = torch.isfinite(y)
    if not good.all():
        where = int((~good.flatten(1) if y.ndim > 1 else ~good.unsqueeze(1)).any(dim=1).nonzero()[0])
        raise DataError(f"the {what} target of sample {where} is NaN or Inf: leave such samples out")
    return y.to(torch.float32)


def class_numbers(y: Tensor, what: str) -> Tensor:
    """Targets as class numbers from 0; DataError where they are none."""
    if y.is_floating_point() or y.is_complex():
        raise DataError(
            f"{what} labels must be whole numbers, the class of each sample, not {y.dtype}: "
            "for numbers to be predicted use task=feddc.Regression()"
        )
    if y.numel() and y.min() < 0:
        raise DataError(f"{what} labels must be 0 or more, but one is {int(y.min())}")
    return y.to(torch.int64)


def alongside(output: Tensor, target: Tensor) -> Tensor:
    """The output in the target's shape, where they differ by a last dimension of one."""
    if output.ndim == target.ndim + 1 and output.shape[-1] == 1:
        return output.squeeze(-1)
    if target.ndim == output.ndim + 1 and target.shape[-1] == 1:
        return output.unsqueeze(-1)
    return output


def same_shape(task: object, output: Any, target: Tensor) -> None:
    """Refuse a model that has not one output for each number of a target."""
    if not isinstance(output, Tensor) or alongside(output, target).shape != target.shape:
        wanted = tuple(target.shape)
        raise ConfigError(f"{name_of(task)} needs an output of shape {wanted}, but the model's is {shape_of(output)}")


def mean_of_rest(values: Tensor) -> Tensor:
    """(B, …) → (B,)."""
    return values.flatten(1).mean(dim=1) if values.ndim > 1 else values


def divided(part: Tensor, whole: Tensor) -> float:
    """A ratio, NaN where there is nothing to divide by."""
    return float(part) / float(whole) if float(whole) else math.nan


def numbers(name: str, values: Any) -> tuple[float, ...]:
    try:
        found = tuple(float(each) for each in values)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} must be a list of numbers, one for each class, not {values!r}") from None
    for each in found:
        check_number(name, each, 0)
    return found


def check_weight(weight: Any, classes: int) -> None:
    if weight is not None:
        check(len(weight) == classes, f"weight has {len(weight)} numbers, but the model has {classes} outputs")
