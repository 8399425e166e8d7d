"""One sentence for everything that does not fit, naming what would be right."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import feddc

X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
NUMBERS = X[:, 0]
CLASSES = np.arange(8) % 2


def federation(y: Any, task: Any) -> feddc.Federation:
    return feddc.Federation.from_arrays(X, y, sizes=[4, 4], task=task)


@pytest.mark.parametrize(
    ("y", "task", "sentence"),
    [
        (NUMBERS, feddc.Classification(), "labels must be whole numbers.*use task=feddc.Regression()"),
        (np.eye(8)[:, :2].astype(int), feddc.Classification(), "a class per sample.*use task=feddc.MultiLabel()"),
        (["cat"] * 8, feddc.Classification(), "labels must be numeric .* not texts such as 'cat': numpy.unique"),
        (np.where(NUMBERS > 0, np.nan, 1), feddc.Regression(), "target of sample . is NaN or Inf"),
        (NUMBERS.astype(complex), feddc.Regression(), "targets must be real numbers"),
        (CLASSES + 1, feddc.MultiLabel(), "must be 0 or 1 for every label"),
        (np.zeros((8, 2, 2)), feddc.MultiLabel(), r"shape \(n, labels\) or \(n,\)"),
        (CLASSES, feddc.Segmentation(), r"shape \(n, height, width\)"),
        (np.full((8, 2, 2), 9), feddc.Segmentation(ignore=9), "every training target is 9, which is to be ignored"),
        (CLASSES - 1, feddc.NextToken(), "must be 0 or more, but one is -1"),
        (CLASSES, "regression", "task must be an object such as feddc.Classification"),
        (CLASSES, feddc.Regression, "task must be an object"),
    ],
)
def test_targets_that_do_not_fit(y: Any, task: Any, sentence: str) -> None:
    with pytest.raises(feddc.FedDCError, match=sentence):
        federation(y, task)


@pytest.mark.parametrize(
    ("y", "task", "model", "sentence"),
    [
        (CLASSES, feddc.Classification(), nn.Linear(3, 1), "shape (2, 1), but the data has 2 classes"),
        (CLASSES, feddc.Classification(weight=[1, 2, 3]), nn.Linear(3, 4), "weight has 3 numbers"),
        (NUMBERS, feddc.Regression(), nn.Linear(3, 2), "Regression needs an output of shape (2,)"),
        (np.eye(8)[:, :3], feddc.MultiLabel(), nn.Linear(3, 2), "MultiLabel needs an output of shape (2, 3)"),
        (
            np.zeros((8, 4, 4), int),
            feddc.Segmentation(),
            nn.Linear(3, 2),
            "Segmentation needs an output of shape (2, 1, 4, 4)",
        ),
        (CLASSES, feddc.NextToken(), nn.Linear(3, 1), "NextToken needs an output of shape (2, 2)"),
        (
            CLASSES,
            feddc.make_task(nn.MSELoss()),
            nn.Linear(3, 1),
            "one number per sample, shape (2,) for 2 samples, not shape ()",
        ),
        (CLASSES, feddc.make_task(nn.CrossEntropyLoss()), nn.Linear(3, 1), "OwnTask cannot take the model's output"),
        (
            CLASSES,
            feddc.make_task(lambda out, y: (out - y).square(), {"bias": lambda out, y: (out - y).mean()}),
            nn.Linear(3, 1),
            "the measure 'bias' must be one number per sample",
        ),
    ],
)
def test_models_that_do_not_fit(y: Any, task: feddc.Task, model: nn.Module, sentence: str) -> None:
    with pytest.raises(feddc.ConfigError, match=re.escape(sentence)):
        feddc.train(feddc.FedAvg(), model, federation(y, task), rounds=1)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: feddc.make_task("mse"), "loss must be a function"),
        (lambda: feddc.make_task(F.l1_loss, {"a": 3}), "metric 'a' must be a function"),
        (lambda: feddc.make_task(F.l1_loss, score="auroc"), "score must be one of loss, not 'auroc'"),
        (lambda: feddc.make_task(F.l1_loss, {"a": torch.sub}, score="a"), "say whether a higher 'a' is better"),
        (lambda: feddc.make_task(F.l1_loss, {"loss": torch.sub}), "'loss' is recorded anyway"),
        (lambda: feddc.Regression(score="accuracy"), "Regression's score must be one of rmse, mae, r2, loss"),
        (lambda: feddc.Classification(weight="ab"), "weight must be a list of numbers"),
        (lambda: feddc.Classification(weight=[-1, 1]), "weight must be at least 0"),
        (lambda: feddc.Classification(label_smoothing=2), "label_smoothing must be at least 0 and at most 1"),
        (lambda: feddc.MultiLabel(positive_weight=-1), "positive_weight must be at least 0"),
    ],
)
def test_tasks_that_cannot_be_made(make: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(feddc.ConfigError, match=re.escape(sentence)):
        make()


def test_a_split_by_class_needs_classes() -> None:
    y = np.eye(8)[:, :3]
    with pytest.raises(feddc.DataError, match="the split 'dirichlet' divides by class"):
        feddc.Federation.from_arrays(X, y, clients=2, split="dirichlet:0.3", task=feddc.MultiLabel())
    assert len(feddc.Federation.from_arrays(X, y, clients=2, task=feddc.MultiLabel())) == 2


def test_numbers_are_split_by_their_ranges() -> None:
    x, y = np.zeros((1000, 1)), np.arange(1000.0)
    parts = feddc.Federation.from_arrays(x, y, clients=10, split="shards:1", task=feddc.Regression())
    assert all(np.ptp(parts.y[rows].numpy()) <= 100 for rows in parts.clients)
