"""One of several classes per sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import DataError, check, check_number
from .base import ScoredTask
from .checks import check_weight, class_numbers, numbers


@dataclass(frozen=True)
class Classification(ScoredTask):
    """One of several classes per sample, by cross-entropy; scored by accuracy.

    ``weight`` multiplies the loss of a sample by the weight of its class. ``label_smoothing`` is the share of a target
    that is spread over all classes.
    """

    weight: Sequence[float] | None = None
    label_smoothing: float = 0.0
    score: Literal["accuracy", "loss"] = "accuracy"
    scores: ClassVar = {"accuracy": True, "loss": False}

    def __post_init__(self) -> None:
        check_number("label_smoothing", self.label_smoothing, 0, 1)
        super().__post_init__()
        if self.weight is not None:
            object.__setattr__(self, "weight", numbers("weight", self.weight))

    @property
    def plain(self) -> bool:
        """Whether it is the cross-entropy whose dense gradient is written out."""
        return self.weight is None and self.label_smoothing == 0

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        if self.weight is not None:
            return self.losses(output, target).mean()
        return F.cross_entropy(output, target, label_smoothing=self.label_smoothing)

    def losses(self, output: Tensor, target: Tensor) -> Tensor:
        losses = F.cross_entropy(output, target, reduction="none", label_smoothing=self.label_smoothing)
        if self.weight is None:
            return losses
        # Not cross_entropy's own weight, which with smoothing weighs the spread share by other classes' weights.
        return losses * torch.tensor(self.weight, dtype=output.dtype, device=output.device)[target]

    def measures(self, output: Tensor, target: Tensor) -> dict[str, Tensor]:
        return {"accuracy": output.argmax(dim=1) == target}

    def targets(self, y: Tensor, what: str) -> Tensor:
        if y.ndim != 1:
            raise DataError(
                f"{what} labels must have shape (n,), a class per sample, not {tuple(y.shape)}: "
                "for several labels a sample use task=feddc.MultiLabel(), for pixels feddc.Segmentation()"
            )
        return class_numbers(y, what)

    def outputs(self, y: Tensor) -> int:
        return max(int(y.max()) + 1, len(self.weight or ()))

    def check_output(self, output: Any, target: Tensor, outputs: int) -> None:
        good = isinstance(output, Tensor)
        check(good, f"the model must give one tensor of class scores, not a {type(output).__name__}")
        fits = output.ndim == 2 and output.shape[1] >= outputs
        shape = f"the model's output for {len(target)} samples has shape {tuple(output.shape)}"
        check(fits, f"{shape}, but the data has {outputs} classes")
        check_weight(self.weight, output.shape[1])
