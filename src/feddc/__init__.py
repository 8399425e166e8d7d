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
    from . import server as server
    from .algorithms import Algorithm as Algorithm, make_method as make_method
    from .algorithms.adabest import AdaBest as AdaBest
    from .algorithms.combinations import (
        FedAdagrad as FedAdagrad,
        FedAdam as FedAdam,
        FedExP as FedExP,
        FedGamma as FedGamma,
        FedSAM as FedSAM,
        FedSpeed as FedSpeed,
        FedYogi as FedYogi,
        MoFedSAM as MoFedSAM,
    )
    from .algorithms.fedacg import FedACG as FedACG
    from .algorithms.fedavg import FedAvg as FedAvg
    from .algorithms.fedcm import FedCM as FedCM
    from .algorithms.feddc import FedDC as FedDC
    from .algorithms.feddecorr import FedDecorr as FedDecorr
    from .algorithms.feddyn import FedDyn as FedDyn
    from .algorithms.fedinit import FedInit as FedInit
    from .algorithms.fedlc import FedLC as FedLC
    from .algorithms.fedlesam import FedLESAM as FedLESAM
    from .algorithms.fednova import FedNova as FedNova
    from .algorithms.fedntd import FedNTD as FedNTD
    from .algorithms.fedprox import FedProx as FedProx
    from .algorithms.fedsmoo import FedSMOO as FedSMOO
    from .algorithms.moon import MOON as MOON
    from .algorithms.scaffold import Scaffold as Scaffold
    from .algorithms.server import SGD as SGD, Adagrad as Adagrad, Adam as Adam, Yogi as Yogi
    from .data import (
        Federation as Federation,
        from_csv as from_csv,
        from_image_folder as from_image_folder,
        load as load,
    )
    from .engine import (
        Callback as Callback,
        ClientScores as ClientScores,
        Drift as Drift,
        LocalTraining as LocalTraining,
        Record as Record,
        Rejected as Rejected,
        Result as Result,
        Simulation as Simulation,
        simulate as simulate,
    )
    from .errors import (
        ConfigError as ConfigError,
        DataError as DataError,
        DivergedError as DivergedError,
        FedDCError as FedDCError,
        RunError as RunError,
        StoppedError as StoppedError,
        StorageError as StorageError,
        WorkerError as WorkerError,
    )
    from .models import make_model as make_model
    from .study.api import StoredRun as StoredRun, compare as compare, load_run as load_run, train as train
    from .study.rollback import roll_back as roll_back
    from .study.trackers import MLflow as MLflow, TensorBoard as TensorBoard
    from .study.trained import TrainedModel as TrainedModel, load_model as load_model
    from .tasks import (
        Classification as Classification,
        MultiLabel as MultiLabel,
        NextToken as NextToken,
        Regression as Regression,
        Score as Score,
        Segmentation as Segmentation,
        Task as Task,
        make_task as make_task,
    )
    from .types import (
        Cohort as Cohort,
        Correction as Correction,
        LocalResult as LocalResult,
        LossBatch as LossBatch,
        Vector as Vector,
    )

__version__ = "0.2.0"

_HOMES = {
    "algorithms": ["Algorithm", "make_method"],
    "algorithms.adabest": ["AdaBest"],
    "algorithms.combinations": [
        "FedAdagrad",
        "FedAdam",
        "FedExP",
        "FedGamma",
        "FedSAM",
        "FedSpeed",
        "FedYogi",
        "MoFedSAM",
    ],
    "algorithms.fedacg": ["FedACG"],
    "algorithms.fedavg": ["FedAvg"],
    "algorithms.fedcm": ["FedCM"],
    "algorithms.feddc": ["FedDC"],
    "algorithms.feddecorr": ["FedDecorr"],
    "algorithms.feddyn": ["FedDyn"],
    "algorithms.fedinit": ["FedInit"],
    "algorithms.fedlc": ["FedLC"],
    "algorithms.fedlesam": ["FedLESAM"],
    "algorithms.fednova": ["FedNova"],
    "algorithms.fedntd": ["FedNTD"],
    "algorithms.fedprox": ["FedProx"],
    "algorithms.fedsmoo": ["FedSMOO"],
    "algorithms.moon": ["MOON"],
    "algorithms.scaffold": ["Scaffold"],
    "algorithms.server": ["SGD", "Adagrad", "Adam", "Yogi"],
    "data": ["Federation", "from_csv", "from_image_folder", "load"],
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
    "study.api": ["StoredRun", "compare", "load_run", "train"],
    "study.rollback": ["roll_back"],
    "study.trackers": ["MLflow", "TensorBoard"],
    "study.trained": ["TrainedModel", "load_model"],
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
    "types": ["Cohort", "Correction", "LocalResult", "LossBatch", "Vector"],
}

__all__ = ["server", *(name for names in _HOMES.values() for name in names)]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``feddc --help`` does not wait for torch."""
    if name == "server":
        return importlib.import_module(".server", __name__)
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f".{home}", __name__), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
