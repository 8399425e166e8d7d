"""Trajectories of modern methods, recorded by running their authors' code, followed in every round.

Each file says in ``meta["methods"]`` which methods it holds and with which settings. Rows with the role ``main`` are
followed, variants where the package offers them, and ``do not follow`` never. FEDDC_METHODS_DIR names another folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import feddc
from feddc.algorithms.base import evaluated
from feddc.algorithms.server import ExP
from tests.test_reference import build

FOLDER = Path(os.environ.get("FEDDC_METHODS_DIR", Path(__file__).parent / "methods"))
FILES = sorted(FOLDER.glob("*.npz"))

Row = dict[str, Any]


def extrapolated(row: Row) -> ExP:
    """The files without |S| and without decay of ε are the paper's form."""
    return ExP(row["eps"], form="code" if row.get("eps_times_cohort") else "paper")


def row_form(row: Row) -> Any:
    """SCAFFOLD's form by how clients count."""
    return "weighted" if row["weighted"] else "original"


METHODS: dict[str, Callable[[Row], Any]] = {
    "fednova": lambda _: feddc.FedNova(),
    "fednova_prox": lambda row: feddc.FedNova(mu=row["mu"]),
    "fednova_momentum": lambda _: feddc.FedNova(),
    "fednova_gmf": lambda row: feddc.FedNova(server=feddc.SGD(momentum=row["gmf"], of="gradient")),
    "fedexp": lambda row: feddc.FedAvg(weighted=row["weighted"], server=extrapolated(row)),
    "fedexp_paper": lambda row: feddc.FedAvg(weighted=row["weighted"], server=extrapolated(row)),
    "fedexp_plain": lambda row: feddc.FedAvg(weighted=row["weighted"], server=extrapolated(row)),
    "fedprox_exp": lambda row: feddc.FedProx(row["mu"], server=extrapolated(row)),
    "scaffold_exp": lambda row: feddc.Scaffold(row_form(row), lr="current", server=extrapolated(row)),
    "fedcm": lambda row: feddc.FedCM(row["alpha"]),
    "fedacg": lambda row: feddc.FedACG(row["momentum"], row["prox"]),
    "adabest": lambda row: feddc.AdaBest(row["mu"], row["beta"]),
    "fedsam": lambda row: feddc.FedAvg(weighted=row["weighted"], sam=row["rho"]),
    "mofedsam": lambda row: feddc.MoFedSAM(row["rho"], row["alpha"]),
    "fedspeed": lambda row: feddc.FedSpeed(row["rho"], row["lamb"]),
    "fedgamma": lambda row: feddc.FedGamma(row["rho"], steps="nominal"),
    "feddyn_plain": lambda row: feddc.FedDyn(row["lamb"], weighted=False),
    "scaffold_plain": lambda _: feddc.Scaffold(steps="nominal", lr="current"),
    "fedlesam": lambda row: feddc.FedLESAM(row["rho"]),
    "fedlesam_s": lambda row: feddc.FedLESAM(row["rho"], base="scaffold", steps="nominal"),
    "fedlesam_d": lambda row: feddc.FedLESAM(row["rho"], base="feddyn", alpha=row["lamb"]),
    "fedinit": lambda row: feddc.FedInit(row["beta"]),
    "fedlc": lambda row: feddc.FedLC(row["tau"], weighted=row["weighted"]),
    "fedlc_weighted": lambda row: feddc.FedLC(row["tau"], weighted=row["weighted"]),
    "fedntd": lambda row: feddc.FedNTD(row["beta"], row["tau"], weighted=row["weighted"]),
    "fedntd_momentum": lambda row: feddc.FedNTD(row["beta"], row["tau"], weighted=row["weighted"]),
    "fedntd_convex": lambda row: feddc.FedNTD(row["weight"], row["tau"], weighted=row["weighted"], convex=True),
    "fedinit_paper": lambda row: feddc.FedInit(row["beta"], form="paper"),
    "fedsmoo": lambda row: feddc.FedSMOO(row["rho"], row["lamb"]),
    "moon": lambda row: feddc.MOON(row["mu"], row["tau"], weighted=row["weighted"]),
    "moon_momentum": lambda row: feddc.MOON(row["mu"], row["tau"], weighted=row["weighted"]),
    "feddecorr": lambda row: feddc.FedDecorr(row["beta"], weighted=row["weighted"]),
    "feddecorr_unweighted": lambda row: feddc.FedDecorr(row["beta"], weighted=row["weighted"]),
}
NOT_OFFERED = {
    "adabest_scaled": "the authors' code makes μ depend on a running mean over messages",
    "fedacg_innerdecay": "the authors' code lowers the rate within a round, which the paper does not say",
    "fedspeed_paper": "leaves out the drift of absent clients",
}


def cases(files: list[Path] = FILES) -> list[Any]:
    """Every row with the role main, known or not, and the variants that the package offers."""
    found = []
    for file in files:
        with np.load(file) as data:
            rows = json.loads(str(data["meta"]))["methods"]
        for name, row in rows.items():
            if row["role"] == "main" or (row["role"] == "variant" and name in METHODS):
                found.append(pytest.param(file, name, id=f"{file.stem}-{name}"))
    return found


def test_there_are_trajectories() -> None:
    assert FILES, f"no .npz in {FOLDER}"


@pytest.mark.parametrize(("file", "name"), cases())
def test_follows_the_authors_code(file: Path, name: str) -> None:
    follow(file, name)


def follow(file: Path, name: str) -> None:
    """Run the method with the file's settings; every round must be the recorded one."""
    data = np.load(file)
    meta = json.loads(str(data["meta"]))
    row = meta["methods"][name]
    assert name in METHODS, f"{file.name} has the method {name} with the role main, and there is no such method here"
    algorithm = METHODS[name](row)
    simulation = feddc.Simulation(
        algorithm,
        build(meta, data["init"]),
        feddc.Federation.from_arrays(data["x"], data["y"], sizes=data["sizes"], classes=meta["classes"]),
        rounds=meta["rounds"],
        cohorts=data["selected"],
        steps=steps_of(data, meta, name, row),
        training=feddc.LocalTraining(
            epochs=meta["local_epochs"],
            batch_size=None if meta["full_batch"] else meta["batch_size"],
            lr=row["lr"],
            lr_decay=row["lr_decay"],
            weight_decay=row["weight_decay"],
            clip_norm=row["clip_norm"],
            momentum=row.get("momentum", 0.0) if name != "fedacg" else 0.0,  # FedACG's is the server's
        ),
    )
    assert simulation.nominal == meta["steps"]
    for record in simulation.run():
        t, server = record.round - 1, simulation.server
        assert_close(server.model, data[f"{name}/global"][t])
        if f"{name}/eval" in data:
            assert_close(evaluated(algorithm, server), data[f"{name}/eval"][t])
        if f"{name}/selected" in data:  # the mean of the cohort's models
            assert_close(server.mean if name == "adabest" else server.model - server.drift, data[f"{name}/selected"][t])


def steps_of(data: Any, meta: Row, name: str, row: Row) -> np.ndarray | None:
    """FedNova's rows say how many steps each client takes; some methods take exactly K on every client."""
    if name.startswith("fednova"):
        steps: np.ndarray = data["fednova/steps"]
        return steps.astype(np.int64)
    return np.full(data["selected"].shape, meta["steps"]) if row.get("fixed_steps") else None


def assert_close(found: torch.Tensor, wanted: np.ndarray) -> None:
    error = np.linalg.norm(found.numpy() - wanted) / np.linalg.norm(wanted)
    assert error < 1e-5


def test_model_of_the_files() -> None:
    assert isinstance(build({"dim": 2, "classes": 3, "model": "linear"}, np.zeros(9, dtype=np.float32)), nn.Module)
