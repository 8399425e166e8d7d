"""Numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ..errors import DataError
from .base import ScoredTask
from .checks import alongside, finite, mean_of_rest, same_shape


@dataclass(frozen=True)
class Regression(ScoredTask):
    """One or several numbers per sample, by squared error; scored by the root mean squared error, lower is better."""

    score: Literal["rmse", "mae", "r2", "loss"] = "rmse"
    scores: ClassVar = {"rmse": False, "mae": False, "r2": True, "loss": False}

    def losses(self, output: Tensor, target: Tensor) -> Tensor:
        return mean_of_rest((alongside(output, target) - target).square())

    def measures(self, output: Tensor, target: Tensor) -> dict[str, Tensor]:
        error = alongside(output, target) - target
        columns = target.flatten(1) if target.ndim > 1 else target.unsqueeze(1)  # (B, columns)
        return {
            "mae": mean_of_rest(error.abs()),
            "mse": error.square().reshape(columns.shape),
            "target": columns,
            "target²": columns.double().square(),
        }

    def finish(self, means: Mapping[str, Tensor]) -> dict[str, float]:
        squared = float(means["mse"].mean())
        variance = means["target²"] - means["target"].square()  # (columns,)
        # R² of each column, averaged, as scikit-learn's r2_score has it by default.
        explained = torch.where(variance > 0, 1 - means["mse"] / variance, math.nan).mean()
        found = {"loss": float(means["loss"]), "rmse": math.sqrt(squared), "mae": float(means["mae"])}
        return found | {"r2": float(explained)}

    def targets(self, y: Tensor, what: str) -> Tensor:
        if y.is_complex():
            raise DataError(f"{what} targets must be real numbers, not {y.dtype}")
        return finite(y.to(torch.float32) if not y.is_floating_point() else y, what)

    def check_output(self, output: Any, target: Tensor, outputs: int) -> None:
        same_shape(self, output, target)
