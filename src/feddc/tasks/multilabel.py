"""Several labels per sample, each yes or no."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import DataError, check_number
from .base import ScoredTask
from .checks import alongside, check_weight, finite, mean_of_rest, numbers, same_shape


@dataclass(frozen=True)
class MultiLabel(ScoredTask):
    """Any number of labels per sample, each yes or no, by binary cross-entropy; with one output it is binary.

    Targets are 0 or 1, of shape (n, labels) or (n,). ``positive_weight`` multiplies the loss of a yes: a number, or one
    for each label. ``f1`` is the mean over labels.
    """

    positive_weight: Sequence[float] | float | None = None
    score: Literal["f1", "accuracy", "exact", "loss"] = "f1"
    scores: ClassVar = {"f1": True, "accuracy": True, "exact": True, "loss": False}

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.positive_weight, int | float):
            check_number("positive_weight", self.positive_weight, 0)
        elif self.positive_weight is not None:
            object.__setattr__(self, "positive_weight", numbers("positive_weight", self.positive_weight))

    def losses(self, output: Tensor, target: Tensor) -> Tensor:
        output = alongside(output, target)
        weight = None
        if self.positive_weight is not None:
            weight = torch.as_tensor(self.positive_weight, dtype=output.dtype, device=output.device)
        target = target.to(output.dtype)
        return mean_of_rest(F.binary_cross_entropy_with_logits(output, target, pos_weight=weight, reduction="none"))

    def measures(self, output: Tensor, target: Tensor) -> dict[str, Tensor]:
        said = (alongside(output, target) > 0).reshape(len(target), -1)
        true = (target > 0.5).reshape(len(target), -1)
        right = said == true
        return {
            "accuracy": right.double().mean(dim=1),
            "exact": right.all(dim=1),
            "hits": said & true,
            "said": said,
            "true": true,
        }

    def finish(self, means: Mapping[str, Tensor]) -> dict[str, float]:
        found = {name: float(means[name]) for name in ("loss", "accuracy", "exact")}
        named = means["said"] + means["true"]  # (labels,); F1 = 2 hits / (said + true), of labels that occur
        ratios = 2 * means["hits"][named > 0] / named[named > 0]
        return found | {"f1": float(ratios.mean()) if len(ratios) else math.nan}

    def targets(self, y: Tensor, what: str) -> Tensor:
        if y.is_floating_point():
            finite(y, what)
        if y.ndim not in (1, 2):
            raise DataError(f"{what} targets must have shape (n, labels) or (n,), not {tuple(y.shape)}")
        if not ((y == 0) | (y == 1)).all():
            raise DataError(f"{what} targets must be 0 or 1 for every label, but there are others")
        return y.to(torch.float32)

    def check_output(self, output: Any, target: Tensor, outputs: int) -> None:
        same_shape(self, output, target)
        if not isinstance(self.positive_weight, int | float):
            check_weight(self.positive_weight, outputs)
