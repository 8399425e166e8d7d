"""What every task promises: a loss and measures, one number per sample, and the score that decides.

    losses(output, target) -> (B,)                 what local training makes smaller
    measures(output, target) -> {name: (B, …)}     added up over samples, divided by their number
    finish(means) -> {name: number}                from those means to what a record holds
    score, higher_is_better                        which of them decides, and in which direction

A task sees the output and the targets of a batch, and nothing of clients, methods or files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..errors import ConfigError, check, first_line
from .checks import finite, name_of, per_sample, shape_of

SHARES = ("accuracy", "exact", "f1", "iou")
"""Measures that are shares of one, which people read in percent."""


@dataclass(frozen=True)
class Score:
    """Which measure decides, and in which direction: what "best" and "reached the target" mean."""

    name: str = "accuracy"
    higher_is_better: bool = True

    def reached(self, value: float, target: float) -> bool:
        return value >= target if self.higher_is_better else value <= target

    def best(self, values: Any) -> float | None:
        """The best of some numbers, None if there are none."""
        pick = max if self.higher_is_better else min
        best: float | None = pick(values, default=None)
        return best

    @property
    def percent(self) -> bool:
        """Whether people read it in percent."""
        return self.name in SHARES

    def text(self, value: float | None) -> str:
        """A value as it is shown: 83.12 %, or four digits."""
        if value is None:
            return "–"
        return f"{100 * value:.2f} %" if self.percent else f"{value:.4g}"


class Task:
    """A task of your own: subclass it, write ``losses`` and ``measures``, and name the ``score``.

    ``feddc.make_task`` makes one from functions.
    """

    score: str = "loss"
    higher_is_better: bool = False

    def losses(self, output: Any, target: Tensor) -> Tensor:
        """The loss of each sample, (B,)."""
        raise NotImplementedError

    def measures(self, output: Any, target: Tensor) -> dict[str, Tensor]:
        """What is measured of each sample besides its loss, (B, …); the mean over samples goes to ``finish``."""
        return {}

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """The mean loss of a batch."""
        return self.losses(output, target).mean()

    def finish(self, means: Mapping[str, Tensor]) -> dict[str, float]:
        """The numbers of a record, from the means over samples."""
        return {name: float(value) for name, value in means.items()}

    def collectors(self) -> dict[str, Any]:
        """Fresh torchmetrics objects, for measures that are no mean over samples."""
        return {}

    def targets(self, y: Tensor, what: str) -> Tensor:
        """The targets in the type that the loss takes; DataError if they do not fit the task."""
        return finite(y, what) if y.is_floating_point() else y.to(torch.int64)

    def outputs(self, y: Tensor) -> int:
        """How many outputs a model needs for these targets."""
        return 1 if y.ndim == 1 else int(y.shape[-1])

    def check_output(self, output: Any, target: Tensor, outputs: int) -> None:
        """Refuse a model whose output for these samples the loss cannot take."""
        try:
            losses = self.losses(output, target)
        except ConfigError:
            raise
        except Exception as error:  # whatever the loss raises, the two do not fit
            raise ConfigError(
                f"{name_of(self)} cannot take the model's output {shape_of(output)}: {first_line(error)}"
            ) from error
        per_sample(losses, len(target), "loss")


class ScoredTask(Task):
    """A task of the package: ``scores`` are the measures that may decide, and whether a higher one is better."""

    scores: ClassVar[Mapping[str, bool]]

    def __post_init__(self) -> None:
        known = ", ".join(self.scores)
        check(self.score in self.scores, f"{name_of(self)}'s score must be one of {known}, not {self.score!r}")

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        return self.scores[self.score]


def score_of(task: Task) -> Score:
    return Score(task.score, task.higher_is_better)
