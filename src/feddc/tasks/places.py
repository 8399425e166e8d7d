"""A class for every place of a sample: pixels of a picture, symbols of a text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import ConfigError, DataError
from .base import ScoredTask
from .checks import class_numbers, divided, name_of, shape_of


class Places(ScoredTask):
    """What both have in common: targets that may be left out, and a model that must have an output for each class."""

    ignore: int | None

    def targets(self, y: Tensor, what: str) -> Tensor:
        if self.ignore is None:
            return class_numbers(y, what)
        counted = y[y != self.ignore]
        if not counted.numel():
            raise DataError(f"every {what} target is {self.ignore}, which is to be ignored")
        class_numbers(counted, what)
        return y.to(torch.int64)

    def outputs(self, y: Tensor) -> int:
        return int((y if self.ignore is None else y[y != self.ignore]).max()) + 1

    def refuse(self, output: Any, *wanted: int) -> ConfigError:
        """The error for a model whose output does not have this shape."""
        needs = f"{name_of(self)} needs an output of shape {wanted}"
        return ConfigError(f"{needs}, but the model's is {shape_of(output)}")


@dataclass(frozen=True)
class Segmentation(Places):
    """A class per pixel, by cross-entropy; scored by the mean intersection over union of the classes.

    The model gives (B, classes, H, W), targets are (B, H, W). Pixels whose target is ``ignore`` count for nothing.
    """

    ignore: int | None = None
    score: Literal["iou", "accuracy", "loss"] = "iou"
    scores: ClassVar = {"iou": True, "accuracy": True, "loss": False}

    def losses(self, output: Tensor, target: Tensor) -> Tensor:
        return _counted(output, target, self.ignore)[0]

    def measures(self, output: Tensor, target: Tensor) -> dict[str, Tensor]:
        said, classes = output.argmax(dim=1), output.shape[1]
        counts = torch.ones_like(target, dtype=torch.bool) if self.ignore is None else target != self.ignore
        right = counts & (said == target)
        rows = torch.arange(len(target), device=target.device).view(-1, *[1] * (target.ndim - 1)).expand_as(target)

        def count(labels: Tensor, where: Tensor) -> Tensor:
            """How many of the chosen pixels each sample has of each class, (B, classes)."""
            places = rows[where] * classes + labels[where]
            return torch.bincount(places, minlength=len(target) * classes).view(len(target), classes)

        hits, of_said, of_true = count(target, right), count(said, counts), count(target, counts)
        pixels = counts.flatten(1).sum(dim=1)
        return {"right": right.flatten(1).sum(dim=1), "pixels": pixels, "hits": hits, "union": of_said + of_true - hits}

    def finish(self, means: Mapping[str, Tensor]) -> dict[str, float]:
        there = means["union"] > 0
        overlap = means["hits"][there] / means["union"][there]
        return {
            "loss": float(means["loss"]),
            "accuracy": divided(means["right"], means["pixels"]),
            "iou": float(overlap.mean()) if len(overlap) else math.nan,
        }

    def targets(self, y: Tensor, what: str) -> Tensor:
        if y.ndim < 2:
            raise DataError(f"{what} targets must have shape (n, height, width), not {tuple(y.shape)}")
        return super().targets(y, what)

    def check_output(self, output: Any, target: Tensor, outputs: int) -> None:
        fits = isinstance(output, Tensor) and output.ndim == target.ndim + 1 and output.shape[1] >= outputs
        if not fits or output.shape[2:] != target.shape[1:]:
            raise self.refuse(output, len(target), outputs, *target.shape[1:])


@dataclass(frozen=True)
class NextToken(Places):
    """The next character, word or symbol, by cross-entropy; scored by accuracy.

    One symbol per sample (output (B, symbols), target (B,)) or one for each place of a sequence (output (B, T,
    symbols), target (B, T)). Targets equal to ``ignore``, such as padding, count for nothing.
    """

    ignore: int | None = None
    score: Literal["accuracy", "loss", "perplexity"] = "accuracy"
    scores: ClassVar = {"accuracy": True, "loss": False, "perplexity": False}

    def losses(self, output: Tensor, target: Tensor) -> Tensor:
        return _counted(output.movedim(-1, 1), target, self.ignore)[0]

    def measures(self, output: Tensor, target: Tensor) -> dict[str, Tensor]:
        losses, counts = _counted(output.movedim(-1, 1), target, self.ignore)
        right = (output.argmax(dim=-1) == target) & (target != self.ignore if self.ignore is not None else True)
        summed = right.reshape(len(target), -1).sum(dim=1)
        return {"right": summed, "symbols": counts, "nats": losses.double() * counts}

    def finish(self, means: Mapping[str, Tensor]) -> dict[str, float]:
        surprise = divided(means["nats"], means["symbols"])
        perplexity = math.exp(surprise) if surprise < 700 else math.inf
        accuracy = divided(means["right"], means["symbols"])
        return {"loss": float(means["loss"]), "accuracy": accuracy, "perplexity": perplexity}

    def check_output(self, output: Any, target: Tensor, outputs: int) -> None:
        if not isinstance(output, Tensor) or output.shape[:-1] != target.shape or output.shape[-1] < outputs:
            raise self.refuse(output, *target.shape, outputs)


def _counted(output: Tensor, target: Tensor, ignore: int | None) -> tuple[Tensor, Tensor]:
    """The mean cross-entropy of each sample's places (B,), and how many of them count (B,); classes are dimension 1."""
    skipped = -100 if ignore is None else ignore
    losses = F.cross_entropy(output, target, ignore_index=skipped, reduction="none").reshape(len(target), -1)
    counts = (target != skipped).reshape(len(target), -1).sum(dim=1)
    return losses.sum(dim=1) / counts.clamp(min=1), counts
