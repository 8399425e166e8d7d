"""What tasks measure is what scikit-learn and torch measure, however the samples are cut."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torchmetrics
from sklearn import metrics
from torch import Tensor

import feddc
from feddc.engine.evaluation import evaluate, metrics_of, packed, total, unpacked
from feddc.models import FlatModel

from .problems import PROBLEMS, problem


def measured(task: feddc.Task, output: Tensor, target: Tensor) -> dict[str, float]:
    class Fixed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unused = torch.nn.Parameter(torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            return output[x[:, 0]]

    model, rows = FlatModel(Fixed()), torch.arange(len(target)).unsqueeze(1)
    target = task.targets(target, "test")
    parts = [evaluate(model, rows[part], target[part], task) for part in (slice(0, 4), slice(4, 5), slice(5, None))]
    whole = total(parts)
    assert whole is not None
    assert metrics_of(whole, task) == pytest.approx(metrics_of(evaluate(model, rows, target, task), task))
    again = total([unpacked(packed(part)) for part in parts])
    assert again is not None
    assert metrics_of(again, task) == metrics_of(whole, task)
    return metrics_of(whole, task)


def test_classification() -> None:
    torch.manual_seed(0)
    output, target = torch.randn(40, 4), torch.randint(4, (40,))
    found = measured(feddc.Classification(), output, target)
    assert found["accuracy"] == metrics.accuracy_score(target, output.argmax(1))
    assert found["loss"] == pytest.approx(float(F.cross_entropy(output, target)))
    task = feddc.Classification(weight=[1, 2, 3, 0])
    plain = F.cross_entropy(output, target, weight=torch.tensor([1.0, 2, 3, 0]), reduction="none")
    torch.testing.assert_close(task.losses(output, target), plain)
    smooth = feddc.Classification(label_smoothing=0.2)
    assert smooth.loss(output, target) == F.cross_entropy(output, target, label_smoothing=0.2)
    torch.testing.assert_close(smooth.losses(output, target).mean(), smooth.loss(output, target))


@pytest.mark.parametrize("columns", [1, 3])
def test_regression(columns: int) -> None:
    torch.manual_seed(0)
    output, target = torch.randn(30, columns), torch.randn(30, columns) * 3 + 5
    found = measured(feddc.Regression(), output, target)
    assert found["rmse"] == pytest.approx(math.sqrt(metrics.mean_squared_error(target, output)))
    assert found["mae"] == pytest.approx(metrics.mean_absolute_error(target, output))
    assert found["r2"] == pytest.approx(metrics.r2_score(target, output), rel=1e-4)
    assert found["loss"] == pytest.approx(found["rmse"] ** 2)


def test_multi_label() -> None:
    torch.manual_seed(0)
    output, target = torch.randn(50, 4), torch.randint(2, (50, 4))
    said = (output > 0).int()
    found = measured(feddc.MultiLabel(), output, target)
    assert found["f1"] == pytest.approx(metrics.f1_score(target, said, average="macro"))
    assert found["exact"] == pytest.approx(metrics.accuracy_score(target, said))
    assert found["accuracy"] == pytest.approx(float((said == target).double().mean()))
    assert found["loss"] == pytest.approx(float(F.binary_cross_entropy_with_logits(output, target.float())))
    one = measured(feddc.MultiLabel(), output[:, :1], target[:, 0])
    assert one["f1"] == pytest.approx(metrics.f1_score(target[:, 0], said[:, 0]))


def test_segmentation() -> None:
    torch.manual_seed(0)
    output, target = torch.randn(8, 3, 5, 5), torch.randint(3, (8, 5, 5))
    target[0] = 255  # a whole picture that does not count
    target[1:, 0] = 255
    found = measured(feddc.Segmentation(ignore=255), output, target)
    counted = target != 255
    said = output.argmax(1)[counted]
    assert found["iou"] == pytest.approx(metrics.jaccard_score(target[counted], said, average="macro"))
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(target[counted], said))


def test_next_token() -> None:
    torch.manual_seed(0)
    output, target = torch.randn(9, 6, 5), torch.randint(1, 5, (9, 6))
    target[:, 4:] = 0
    target[0, 1:] = 0  # a sample of one symbol
    found = measured(feddc.NextToken(ignore=0), output, target)
    counted = target != 0
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(target[counted], output.argmax(-1)[counted]))
    assert found["perplexity"] == pytest.approx(float(F.cross_entropy(output[counted], target[counted]).exp()))
    one = measured(feddc.NextToken(), output[:, 0], target[:, 0].clamp(min=1))
    assert one["loss"] == pytest.approx(float(F.cross_entropy(output[:, 0], target[:, 0].clamp(min=1))))


def test_one_s_own_measures() -> None:
    torch.manual_seed(0)
    output, target = torch.randn(60, 1), torch.randint(2, (60,))
    task = feddc.make_task(
        loss=lambda out, y: F.binary_cross_entropy_with_logits(out, y.float(), reduction="none"),
        metrics={"auroc": torchmetrics.AUROC("binary"), "far": lambda out, y: (out.sigmoid() - y).abs()},
        score="auroc",
    )
    assert (task.score, task.higher_is_better) == ("auroc", True)  # torchmetrics knows the direction
    found = measured(task, output, target)
    assert found["auroc"] == pytest.approx(metrics.roc_auc_score(target, output[:, 0]))
    assert found["far"] == pytest.approx(float((output[:, 0].sigmoid() - target).abs().mean()))


def test_torchmetrics_see_all_outputs_at_once() -> None:
    """Logits that are all in 0..1 would be taken for probabilities in a block of their own, others would not: merged
    states of the blocks then have another AUROC than the samples have."""
    output, target = torch.tensor([0.9, 0.1, 0.8, 0.2, 3.0, 2.0]), torch.tensor([0, 0, 1, 0, 1, 1])
    task = feddc.make_task(
        loss=lambda out, y: (out - y).square(), metrics={"auroc": torchmetrics.AUROC("binary")}, score="auroc"
    )
    assert measured(task, output, target)["auroc"] == pytest.approx(metrics.roc_auc_score(target, output))  # 8/9
    merged = torchmetrics.AUROC("binary")
    for block in (slice(4), slice(4, 6)):
        merged.update(output[block], target[block])
    assert float(merged.compute()) == pytest.approx(7 / 9)  # once it is 8/9, states can be merged


def test_a_measure_that_is_not_defined_is_left_out() -> None:
    task = feddc.make_task(
        loss=lambda out, y: (out - y).square(), metrics={"auroc": torchmetrics.AUROC("binary")}, score="auroc"
    )
    found = measured(task, torch.linspace(0, 1, 10), torch.ones(10, dtype=torch.int64))
    assert found["loss"] > 0
    regression = measured(feddc.Regression(), torch.linspace(0, 1, 10), torch.ones(10))
    assert "r2" not in regression  # no variance to explain


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_mean_of_the_losses_is_the_loss(name: str) -> None:
    federation, model = problem(name)
    x, y = federation.first(10)
    output = model(x)
    losses = federation.task.losses(output, y)
    assert losses.shape == (10,)
    torch.testing.assert_close(losses.mean(), federation.task.loss(output, y))


def test_scores_have_a_direction() -> None:
    up, down = feddc.Score("accuracy"), feddc.Score("rmse", higher_is_better=False)
    assert up.best([0.1, 0.3]) == 0.3
    assert down.best([0.1, 0.3]) == 0.1
    assert up.best([]) is None
    assert up.reached(0.5, 0.5)
    assert not up.reached(0.4, 0.5)
    assert down.reached(0.4, 0.5)
    assert (up.text(0.8312), down.text(0.8312), up.text(None)) == ("83.12 %", "0.8312", "–")
    assert np.isfinite(up.best([1.0]) or 0)
