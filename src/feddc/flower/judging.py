"""The measures of a model on the test set of a federation, as server and sites take them: the same code on both."""

from __future__ import annotations

from torch import nn

from ..data import Federation
from ..engine import LocalTraining
from ..engine.evaluation import metrics_of, total
from ..engine.executors import InProcess
from ..engine.local.kernel import Job, Start

Measures = dict[str, float]
"""``samples``, and the mean of every measure over them."""


class Judge:
    """Evaluates models on one test set."""

    def __init__(self, module: nn.Module, federation: Federation, device: str | None = None) -> None:
        """``device`` is where it computes, if not on this processor."""
        self._executor = InProcess(Job(module, federation, LocalTraining(), 0, None), device)

    def measures(self, start: Start) -> Measures:
        """The measures of this model; empty where there is no test set."""
        found = total(self._executor.measure(start, self._executor.job.federation.blocks("test")))
        if found is None:
            return {}
        return {"samples": found.samples, **metrics_of(found, self._executor.job.federation.task)}
