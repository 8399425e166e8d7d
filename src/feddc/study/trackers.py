"""Callbacks for trackers. To write one for another tracker: these few lines show all there is to it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from ..engine import Callback, Record, Simulation
from ..errors import ConfigError


def scalars(record: Record) -> dict[str, float]:
    """The numbers of a round that a tracker draws; client by client numbers as means over the cohort."""
    found: dict[str, float | None] = {**record.metrics, "seconds": record.seconds}
    found["megabytes"] = (record.bytes_up + record.bytes_down) / 1e6
    for kind, clients in (("clients", record.clients), ("personal", record.personal)):
        if clients is not None:
            found |= {f"{kind}/{name}": getattr(clients, name) for name in ("mean", "std", "worst")}
    found |= {f"validation/{name}": value for name, value in (record.validation or {}).items()}
    if record.drift is not None:
        found["drift/cosine"] = record.drift.cosine
        for name in ("update", "drift", "gap"):
            values = getattr(record.drift, name)
            found[f"drift/{name}"] = None if values is None else sum(values) / len(values)
    return {name: value for name, value in found.items() if value is not None}


def require_tensorboard() -> Any:
    """TensorBoard's writer, or one sentence on how to install it."""
    return _needed("torch.utils.tensorboard", "TensorBoard", "feddc[tensorboard]")


class TensorBoard(Callback):
    """Writes TensorBoard events into ``folder``: ``tensorboard --logdir`` shows them."""

    def __init__(self, folder: Path | str) -> None:
        self._folder, self._module = str(folder), require_tensorboard()
        self._writer: Any = None

    def on_start(self, simulation: Simulation) -> None:
        self._writer = self._module.SummaryWriter(self._folder)

    def on_record(self, record: Record) -> None:
        for name, value in scalars(record).items():
            self._writer.add_scalar(name, value, record.round)
        self._writer.flush()

    def on_end(self) -> None:
        self._writer.close()


class MLflow(Callback):
    """Logs a run to MLflow, wherever ``mlflow.set_tracking_uri`` says; ``params`` are logged with it."""

    def __init__(self, run_name: str | None = None, params: dict[str, Any] | None = None) -> None:
        self._mlflow = _needed("mlflow", "MLflow", "mlflow")
        self._name, self._params = run_name, params or {}

    def on_start(self, simulation: Simulation) -> None:
        self._mlflow.start_run(run_name=self._name)
        known = {"method": simulation.algorithm, "rounds": simulation.rounds, "seed": simulation.options.seed}
        self._mlflow.log_params({**known, "clients": len(simulation.federation), **self._params})

    def on_record(self, record: Record) -> None:
        named = {name.replace("/", "_"): value for name, value in scalars(record).items()}
        self._mlflow.log_metrics(named, step=record.round)

    def on_end(self) -> None:
        self._mlflow.end_run()


def _needed(module: str, name: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(f"{name} is not installed: pip install '{package}'") from error
