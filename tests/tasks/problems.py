"""A small federation and model for every built-in task."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

import feddc

SIZES = [12, 7, 15, 9]
N = sum(SIZES)


class PerPlace(nn.Module):
    """Symbols (B, T) → scores for each place (B, T, symbols)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(5, 4), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.embedding(x))
        return out


def _rng() -> np.random.Generator:
    return np.random.default_rng(3)


def classification(task: feddc.Task) -> tuple[feddc.Federation, nn.Module]:
    x, y = _rng().normal(size=(N, 4)), _rng().integers(3, size=N)
    y[:3] = 0, 1, 2
    return _federation(x, y, task), nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))


def regression(task: feddc.Task) -> tuple[feddc.Federation, nn.Module]:
    x = _rng().normal(size=(N, 4))
    return _federation(x, x @ [1.0, -2.0, 0.5, 0.0] + 3, task), nn.Linear(4, 1)


def several_numbers(task: feddc.Task) -> tuple[feddc.Federation, nn.Module]:
    x = _rng().normal(size=(N, 4))
    return _federation(x, x[:, :2] ** 2, task), nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))


def labels(task: feddc.Task) -> tuple[feddc.Federation, nn.Module]:
    x = _rng().normal(size=(N, 4))
    return _federation(x, (x[:, :3] > 0.3).astype(int), task), nn.Linear(4, 3)


def binary(task: feddc.Task) -> tuple[feddc.Federation, nn.Module]:
    x = _rng().normal(size=(N, 4))
    return _federation(x, (x[:, 0] > 0).astype(int), task), nn.Linear(4, 1)


def pixels(task: feddc.Task) -> tuple[feddc.Federation, nn.Module]:
    x = _rng().normal(size=(N, 1, 6, 6)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int) + (x[:, 0] > 1)
    y[:, 0, 0] = 9
    return _federation(x, y, task), nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 1))


def tokens(task: feddc.Task) -> tuple[feddc.Federation, nn.Module]:
    x = _rng().integers(1, 5, size=(N, 7))
    y = np.roll(x, -1, axis=1)
    y[:, -1] = 0  # there is no next one
    return _federation(x, y, task), PerPlace()


def _federation(x: np.ndarray, y: np.ndarray, task: feddc.Task) -> feddc.Federation:
    return feddc.Federation.from_arrays(x, y, sizes=SIZES, test=(x, y), task=task)


Problem = tuple[feddc.Task, Callable[[feddc.Task], tuple[feddc.Federation, nn.Module]]]
PROBLEMS: dict[str, Problem] = {
    "classification": (feddc.Classification(), classification),
    "weighted": (feddc.Classification(weight=[1, 2, 0.5], label_smoothing=0.1), classification),
    "regression": (feddc.Regression(), regression),
    "several numbers": (feddc.Regression(score="r2"), several_numbers),
    "labels": (feddc.MultiLabel(positive_weight=[1, 2, 3]), labels),
    "binary": (feddc.MultiLabel(score="accuracy"), binary),
    "pixels": (feddc.Segmentation(ignore=9), pixels),
    "tokens": (feddc.NextToken(ignore=0), tokens),
}


def problem(name: str) -> tuple[feddc.Federation, nn.Module]:
    task, make = PROBLEMS[name]
    torch.manual_seed(0)
    return make(task)
