"""Trackers: TensorBoard events that TensorBoard reads, and an MLflow run in MLflow's file store."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest
from torch import nn

import feddc
from feddc.study.trackers import MLflow, TensorBoard, scalars
from tests.conftest import FAST


def test_scalars_are_means_over_the_cohort() -> None:
    drift = feddc.Drift((1.0, 3.0), (2.0, 4.0), (5.0, 7.0), 0.5)
    record = feddc.Record(1, {"accuracy": 0.5}, (0, 1), 1_000_000, 1_000_000, 0.1, drift=drift)
    assert scalars(record) == {
        "accuracy": 0.5,
        "seconds": 0.1,
        "megabytes": 2.0,
        "drift/update": 2.0,
        "drift/drift": 6.0,
        "drift/gap": 3.0,
        "drift/cosine": 0.5,
    }


def test_tensorboard_reads_what_was_written(tmp_path: Path, federation: feddc.Federation, model: nn.Module) -> None:
    pytest.importorskip("tensorboard", reason="the extra 'tensorboard' is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorBoard's own imports
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        board = TensorBoard(tmp_path / "board")
        feddc.train(feddc.FedDC(), model, federation, rounds=3, training=FAST, callbacks=[board])
        events = EventAccumulator(str(tmp_path / "board"))
        events.Reload()
    assert [event.step for event in events.Scalars("accuracy")] == [1, 2, 3]
    assert {"loss", "drift/gap", "drift/drift", "drift/cosine"} <= set(events.Tags()["scalars"])


def test_mlflow_has_the_run(
    tmp_path: Path, federation: feddc.Federation, model: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("GIT_PYTHON_REFRESH", "quiet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's own imports, and its opinion of file stores
        mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: pip install mlflow-skinny")
        mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
        tracker = MLflow("mine", {"lr": 0.05})
        feddc.train(feddc.FedDC(), model, federation, rounds=2, training=FAST, callbacks=[tracker])
        [run] = mlflow.search_runs(output_format="list")
        history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "accuracy")
    assert run.info.status == "FINISHED"
    assert run.data.params["lr"] == "0.05"
    assert "FedDC" in run.data.params["method"]
    assert [metric.step for metric in history] == [1, 2]
    assert "drift_gap" in run.data.metrics


def test_a_missing_tracker_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(feddc.ConfigError, match=r"TensorBoard is not installed: pip install 'feddc\[tensorboard\]'"):
        TensorBoard("anywhere")
