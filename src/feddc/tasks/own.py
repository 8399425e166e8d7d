"""A task from a loss and measures of one's own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ..errors import check
from .base import Task
from .checks import alongside, name_of, per_sample

MetricFunction = Callable[[Any, Tensor], Tensor]


@dataclass(frozen=True)
class OwnTask(Task):
    """What ``make_task`` makes."""

    function: MetricFunction
    score: str
    higher_is_better: bool
    plain: Mapping[str, MetricFunction] = field(default_factory=dict)
    """Measures that are means over samples."""
    collected: Mapping[str, Any] = field(default_factory=dict)
    """torchmetrics objects."""

    def losses(self, output: Any, target: Tensor) -> Tensor:
        return per_sample(self.function(_beside(output, target), target), len(target), "loss")

    def measures(self, output: Any, target: Tensor) -> dict[str, Tensor]:
        output = _beside(output, target)
        return {
            name: per_sample(measure(output, target), len(target), f"measure '{name}'")
            for name, measure in self.plain.items()
        }

    def collectors(self) -> dict[str, Any]:
        return {name: copy.deepcopy(metric) for name, metric in self.collected.items()}

    def check_output(self, output: Any, target: Tensor, outputs: int) -> None:
        super().check_output(output, target, outputs)
        self.measures(output, target)


def make_task(
    loss: MetricFunction,
    metrics: Mapping[str, Any] | None = None,
    *,
    score: str = "loss",
    higher_is_better: bool | None = None,
) -> Task:
    """A task of your own.

    ``loss(output, target)`` gives one number per sample, shape (B,): ``torch.nn.BCEWithLogitsLoss(reduction="none")``,
    or a function. So does every function in ``metrics``, whose mean over samples is recorded; a measure that is no such
    mean, such as AUROC or F1, is a torchmetrics object. ``score`` is the one that decides, "loss" by default.
    ``higher_is_better`` need not be given for the loss and for torchmetrics objects that know it.
    """
    check(callable(loss), f"loss must be a function of (output, target), not {loss!r}")
    metrics = dict(metrics or {})
    collected = {name: each for name, each in metrics.items() if _collects(each)}
    plain = {name: each for name, each in metrics.items() if name not in collected}
    for name, each in plain.items():
        check(callable(each), f"metric '{name}' must be a function of (output, target) or a torchmetrics object")
    check("loss" not in metrics, "'loss' is recorded anyway: give the metric another name")
    known = ["loss", *metrics]
    check(score in known, f"score must be one of {', '.join(known)}, not {score!r}")
    if higher_is_better is None:
        higher_is_better = False if score == "loss" else getattr(metrics[score], "higher_is_better", None)
    check(higher_is_better is not None, f"say whether a higher '{score}' is better: higher_is_better=True or False")
    return OwnTask(loss, score, bool(higher_is_better), plain, collected)


def as_task(task: Any) -> Task:
    """The task that was given; ConfigError if it is none."""
    good = isinstance(task, Task)
    wanted = "an object such as feddc.Classification() or one from feddc.make_task(…)"
    check(good, f"task must be {wanted}, not {task!r}")
    check(isinstance(task.score, str), f"{name_of(task)}'s score must be the name of a measure, not {task.score!r}")
    found: Task = task
    return found


def _collects(metric: Any) -> bool:
    return all(hasattr(metric, name) for name in ("update", "compute", "reset"))


def _beside(output: Any, target: Tensor) -> Any:
    return alongside(output, target) if isinstance(output, Tensor) else output
