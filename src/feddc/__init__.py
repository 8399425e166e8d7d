"""feddc: federated learning for clients whose data is not identically distributed.

import feddc
federation = feddc.load("digits", clients=20, split="dirichlet:0.1")
model = feddc.make_model("fcn:100", federation.shape, federation.classes)
result = feddc.train(feddc.FedDC(alpha=0.1), model, federation, rounds=50, participation=0.3)
print(result.best_accuracy, result.rounds_to(0.95))
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .algorithms.fedavg import FedAdagrad, FedAdam, FedAvg, FedYogi
    from .algorithms.feddc import FedDC
    from .algorithms.feddyn import FedDyn
    from .algorithms.fedprox import FedProx
    from .algorithms.scaffold import Scaffold
    from .algorithms.server import SGD, Adagrad, Adam, Yogi
    from .data import Federation, load
    from .engine import (
        Callback,
        ClientScores,
        Drift,
        LocalTraining,
        Record,
        Rejected,
        Result,
        Simulation,
        simulate,
        train,
    )
    from .errors import (
        ConfigError,
        DataError,
        DivergedError,
        FedDCError,
        RunError,
        StoppedError,
        StorageError,
        WorkerError,
    )
    from .models import make_model
    from .study.trackers import MLflow, TensorBoard
    from .tasks import Classification, MultiLabel, NextToken, Regression, Score, Segmentation, Task, make_task
    from .types import Cohort, Correction, LocalResult

__version__ = "0.2.0"

_HOMES = {
    "algorithms.fedavg": ["FedAdagrad", "FedAdam", "FedAvg", "FedYogi"],
    "algorithms.feddc": ["FedDC"],
    "algorithms.feddyn": ["FedDyn"],
    "algorithms.fedprox": ["FedProx"],
    "algorithms.scaffold": ["Scaffold"],
    "algorithms.server": ["SGD", "Adagrad", "Adam", "Yogi"],
    "data": ["Federation", "load"],
    "engine": [
        "Callback",
        "ClientScores",
        "Drift",
        "LocalTraining",
        "Record",
        "Rejected",
        "Result",
        "Simulation",
        "simulate",
        "train",
    ],
    "errors": [
        "ConfigError",
        "DataError",
        "DivergedError",
        "FedDCError",
        "RunError",
        "StoppedError",
        "StorageError",
        "WorkerError",
    ],
    "study.trackers": ["MLflow", "TensorBoard"],
    "models": ["make_model"],
    "tasks": [
        "Classification",
        "MultiLabel",
        "NextToken",
        "Regression",
        "Score",
        "Segmentation",
        "Task",
        "make_task",
    ],
    "types": ["Cohort", "Correction", "LocalResult"],
}

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "Callback",
    "Classification",
    "ClientScores",
    "Cohort",
    "ConfigError",
    "Correction",
    "DataError",
    "DivergedError",
    "Drift",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedDC",
    "FedDCError",
    "FedDyn",
    "FedProx",
    "FedYogi",
    "Federation",
    "LocalResult",
    "LocalTraining",
    "MLflow",
    "MultiLabel",
    "NextToken",
    "Record",
    "Regression",
    "Rejected",
    "Result",
    "RunError",
    "Scaffold",
    "Score",
    "Segmentation",
    "Simulation",
    "StoppedError",
    "StorageError",
    "Task",
    "TensorBoard",
    "WorkerError",
    "Yogi",
    "load",
    "make_model",
    "make_task",
    "simulate",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``feddc --help`` does not wait for torch."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f".{home}", __name__), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
