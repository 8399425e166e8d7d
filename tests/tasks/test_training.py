"""Every task trains with every executor, and everything that follows a score follows its direction."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
import torchmetrics
from torch import Tensor, nn

import feddc
from feddc.engine.records import Record

from .problems import PROBLEMS, problem

TRAINING = feddc.LocalTraining(epochs=2, batch_size=5, lr=0.05, lr_decay=1.0, weight_decay=0.0)


def run(name: str, executor: str = "in-process", **options: Any) -> feddc.Result:
    federation, model = problem(name)
    workers = 2 if executor == "workers" else None
    options = {"rounds": 3, "training": TRAINING, "executor": executor, "workers": workers} | options
    return feddc.train(feddc.FedDC(alpha=0.1), model, federation, **options)


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_task_learns_with_every_executor(name: str) -> None:
    plain = run(name, rounds=12)
    losses = [record.metrics["loss"] for record in plain.records]
    assert losses[-1] < losses[0]
    assert plain.best == plain.records[-1].score.best(r.metrics[r.score.name] for r in plain.records)
    rows = run(name, "vectorised", rounds=12)
    for one, other in zip(plain.records, rows.records, strict=True):
        assert other.metrics == pytest.approx(one.metrics, rel=2e-2, abs=2e-2)
    assert rows.records[0].metrics["loss"] == pytest.approx(plain.records[0].metrics["loss"], rel=1e-4)


@pytest.mark.parametrize("name", ["labels", "pixels"])
def test_workers_give_the_same_bits(name: str) -> None:
    plain, spread = run(name), run(name, "workers")
    assert [r.metrics for r in plain.records] == [r.metrics for r in spread.records]


def auroc(out: Tensor, y: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(out, y.to(out.dtype), reduction="none")


def test_torchmetrics_travel_between_processes() -> None:
    task = feddc.make_task(auroc, {"auroc": torchmetrics.AUROC("binary")}, score="auroc")
    plain, spread = (run("binary", executor, task=task) for executor in ("in-process", "workers"))
    assert [r.metrics for r in plain.records] == [r.metrics for r in spread.records]
    assert plain.records[-1].value == plain.records[-1].metrics["auroc"]


def test_a_task_given_to_the_simulation_overrides_the_federation_s() -> None:
    assert run("regression", task=feddc.Regression(score="mae")).records[0].score == feddc.Score("mae", False)
    labelled = run("binary", task=feddc.Regression())
    assert labelled.records[0].score.name == "rmse"


def test_lower_is_better_for_an_error() -> None:
    records = [
        Record(i, {"rmse": v}, (), 10, 0, 0.0, score=feddc.Score("rmse", False)) for i, v in [(1, 3.0), (2, 1.0)]
    ]
    result = feddc.Result((*records, Record(3, {}, (), 10, 0, 0.0, score=feddc.Score("rmse", False))), nn.Identity())
    assert result.best == 1.0
    assert result.best_accuracy is None
    assert result.rounds_to(2.0) == 2
    assert result.rounds_to(0.5) is None
    assert result.bytes_to(2.0) == 20
    assert "best rmse 1" in repr(result)


def test_a_model_with_batch_norm_and_frozen_layers_regresses() -> None:
    federation, _ = problem("regression")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    model[0].requires_grad_(False)
    result = feddc.train(feddc.Scaffold(), model, federation, rounds=8, training=TRAINING)
    assert result.records[-1].metrics["rmse"] < result.records[0].metrics["rmse"]
    torch.testing.assert_close(result.model[0].weight, model[0].weight)


class Prior:
    """A local loss of a method's own: FedAvg whose logits are shifted by the client's class counts."""

    fixed_steps: ClassVar[bool] = False
    needs_reference: ClassVar[bool] = True

    def __init__(self) -> None:
        self._plain = feddc.FedAvg()

    def __getattr__(self, name: str) -> Any:
        return getattr(feddc.FedAvg(), name)

    def local_loss(self, batch: feddc.LossBatch) -> Tensor:
        assert batch.counts.sum() in (12, 7, 15, 9)
        assert batch.received is not None
        output, reference = batch.own.output, batch.received.output
        assert reference.shape == output.shape
        assert not reference.requires_grad
        shifted = batch.losses(output + batch.counts.clamp(min=1).log(), batch.target)
        return shifted + 0.1 * (output - reference).square().mean(1)


def test_a_method_s_own_local_loss() -> None:
    federation, model = problem("classification")
    plain, own = (
        feddc.train(method, model, federation, rounds=2, training=TRAINING) for method in (feddc.FedAvg(), Prior())
    )
    assert own.records[-1].loss is not None
    assert own.records[-1].loss != plain.records[-1].loss
    with pytest.raises(feddc.ConfigError, match=r"torch\.func cannot train the model in rows"):  # it looks at numbers
        feddc.train(Prior(), model, federation, rounds=1, executor="vectorised")


def test_records_of_older_versions_are_read(tmp_path: Path) -> None:
    from feddc.study.rundir import read_records

    old = (
        '{"round": 1, "accuracy": 0.5, "loss": null, "participants": [0], "bytes_up": 1, "bytes_down": 1, "seconds": 0}'
    )
    (tmp_path / "records.jsonl").write_text(old + "\n")
    [record] = read_records(tmp_path / "records.jsonl")
    assert (record.metrics, record.accuracy, record.loss, record.value) == ({"accuracy": 0.5}, 0.5, None, 0.5)


def test_a_function_for_the_learning_rate_does_not_travel_to_a_client() -> None:
    from feddc.flower.settings import training_config, training_from

    listed = feddc.LocalTraining(rates="0.1,0.05")
    assert training_from(training_config(listed)) == listed
    with pytest.raises(feddc.ConfigError, match="a list of numbers, not a function"):
        training_config(feddc.LocalTraining(rates="math:exp2"))
    with pytest.raises(feddc.ConfigError, match="a client imports nothing at its request"):
        training_from(training_config(listed) | {"training.rates": "os:_exit"})
