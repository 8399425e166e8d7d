"""A round without an engine: what methods are given, made up."""

from __future__ import annotations

from typing import Any

import torch

from feddc.engine.rounds import Sums
from feddc.models import Buffers
from feddc.types import Cohort, Column, LocalResult, Means, Rows

NOTHING = Buffers(torch.zeros(0), torch.zeros(0, dtype=torch.int64))


def local_result(delta: Rows, steps: int | Column = 4, lr: float = 0.1, round: int = 1) -> LocalResult:
    own = steps if isinstance(steps, torch.Tensor) else torch.full((len(delta), 1), float(steps))
    return LocalResult(delta=delta, steps=own, nominal=int(own.mean()), lr=lr, rate=lr, round=round)


def cohort(participation: float = 1.0, size: int = 3, steps: int = 4, lr: float = 0.1, round: int = 1) -> Cohort:
    return Cohort(participation=participation, size=size, nominal=steps, lr=lr, rate=lr, round=round)


def means_of(method: Any, upload: Any, local: LocalResult, weight: Column) -> Means:
    """What the engine makes of the uploads of a cohort."""
    sums = Sums()
    buffers = Buffers(*(each.expand(len(weight), 0) for each in NOTHING))
    sums.add(upload, buffers, weight, method.weigh(local, weight))
    return sums.means(NOTHING)[0]
