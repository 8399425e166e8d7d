"""The tasks that are built in: classes, numbers, labels, pixels, tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import ConfigError, DataError, check, check_number
from .base import Task, alongside, class_numbers, divided, finite, mean_of_rest, name_of, same_shape, shape_of


@dataclass(frozen=True)
class Classification(Task):
    """One of several classes per sample, by cross-entropy; scored by accuracy.

    ``weight`` multiplies the loss of a sample by the weight of its class. ``label_smoothing`` is the share of a target
    that is spread over all classes.
    """

    weight: Sequence[float] | None = None
    label_smoothing: float = 0.0
    score: Literal["accuracy", "loss"] = "accuracy"

    def __post_init__(self) -> None:
        check_number("label_smoothing", self.label_smoothing, 0, 1)
        _check_score(self, "accuracy", "loss")
        if self.weight is not None:
            object.__setattr__(self, "weight", _numbers("weight", self.weight))

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        return self.score != "loss"

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
        _check_weight(self.weight, output.shape[1])


@dataclass(frozen=True)
class Regression(Task):
    """One or several numbers per sample, by squared error; scored by the root mean squared error, lower is better."""

    score: Literal["rmse", "mae", "r2", "loss"] = "rmse"

    def __post_init__(self) -> None:
        _check_score(self, "rmse", "mae", "r2", "loss")

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        return self.score == "r2"

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


@dataclass(frozen=True)
class MultiLabel(Task):
    """Any number of labels per sample, each yes or no, by binary cross-entropy; with one output it is binary.

    Targets are 0 or 1, of shape (n, labels) or (n,). ``positive_weight`` multiplies the loss of a yes: a number, or one
    for each label. ``f1`` is the mean over labels.
    """

    positive_weight: Sequence[float] | float | None = None
    score: Literal["f1", "accuracy", "exact", "loss"] = "f1"

    def __post_init__(self) -> None:
        _check_score(self, "f1", "accuracy", "exact", "loss")
        if isinstance(self.positive_weight, int | float):
            check_number("positive_weight", self.positive_weight, 0)
        elif self.positive_weight is not None:
            object.__setattr__(self, "positive_weight", _numbers("positive_weight", self.positive_weight))

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        return self.score != "loss"

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
            _check_weight(self.positive_weight, outputs)


@dataclass(frozen=True)
class Segmentation(Task):
    """A class per pixel, by cross-entropy; scored by the mean intersection over union of the classes.

    The model gives (B, classes, H, W), targets are (B, H, W). Pixels whose target is ``ignore`` count for nothing.
    """

    ignore: int | None = None
    score: Literal["iou", "accuracy", "loss"] = "iou"

    def __post_init__(self) -> None:
        _check_score(self, "iou", "accuracy", "loss")

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        return self.score != "loss"

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
        return _known(y, what, self.ignore)

    def outputs(self, y: Tensor) -> int:
        return int((y if self.ignore is None else y[y != self.ignore]).max()) + 1

    def check_output(self, output: Any, target: Tensor, outputs: int) -> None:
        fits = isinstance(output, Tensor) and output.ndim == target.ndim + 1 and output.shape[1] >= outputs
        if not fits or output.shape[2:] != target.shape[1:]:
            wanted = (len(target), outputs, *target.shape[1:])
            raise ConfigError(
                f"{name_of(self)} needs an output of shape {wanted}, but the model's is {shape_of(output)}"
            )


@dataclass(frozen=True)
class NextToken(Task):
    """The next character, word or symbol, by cross-entropy; scored by accuracy.

    One symbol per sample (output (B, symbols), target (B,)) or one for each place of a sequence (output (B, T,
    symbols), target (B, T)). Targets equal to ``ignore``, such as padding, count for nothing.
    """

    ignore: int | None = None
    score: Literal["accuracy", "loss", "perplexity"] = "accuracy"

    def __post_init__(self) -> None:
        _check_score(self, "accuracy", "loss", "perplexity")

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        return self.score == "accuracy"

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

    def targets(self, y: Tensor, what: str) -> Tensor:
        return _known(y, what, self.ignore)

    def outputs(self, y: Tensor) -> int:
        return int((y if self.ignore is None else y[y != self.ignore]).max()) + 1

    def check_output(self, output: Any, target: Tensor, outputs: int) -> None:
        fits = isinstance(output, Tensor) and output.shape[:-1] == target.shape and output.shape[-1] >= outputs
        if not fits:
            wanted = (*target.shape, outputs)
            raise ConfigError(
                f"{name_of(self)} needs an output of shape {wanted}, but the model's is {shape_of(output)}"
            )


def _counted(output: Tensor, target: Tensor, ignore: int | None) -> tuple[Tensor, Tensor]:
    """The mean cross-entropy of each sample's places (B,), and how many of them count (B,); classes are dimension 1."""
    skipped = -100 if ignore is None else ignore
    losses = F.cross_entropy(output, target, ignore_index=skipped, reduction="none").reshape(len(target), -1)
    counts = (target != skipped).reshape(len(target), -1).sum(dim=1)
    return losses.sum(dim=1) / counts.clamp(min=1), counts


def _known(y: Tensor, what: str, ignore: int | None) -> Tensor:
    if ignore is None:
        return class_numbers(y, what)
    counted = y[y != ignore]
    if not counted.numel():
        raise DataError(f"every {what} target is {ignore}, which is to be ignored")
    class_numbers(counted, what)
    return y.to(torch.int64)


def _check_score(task: Task, *known: str) -> None:
    check(task.score in known, f"{name_of(task)}'s score must be one of {', '.join(known)}, not {task.score!r}")


def _numbers(name: str, values: Any) -> tuple[float, ...]:
    try:
        found = tuple(float(each) for each in values)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} must be a list of numbers, one for each class, not {values!r}") from None
    for each in found:
        check_number(name, each, 0)
    return found


def _check_weight(weight: Any, classes: int) -> None:
    if weight is not None:
        check(len(weight) == classes, f"weight has {len(weight)} numbers, but the model has {classes} outputs")
