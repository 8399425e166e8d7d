"""The trajectories recorded from the authors' code, followed in every round by every method."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import feddc

FOLDER = Path(os.environ.get("FEDDC_REFERENCE_DIR", Path(__file__).parent / "reference"))
FILES = sorted(FOLDER.glob("*.npz"))
METHODS = ["fedavg", "fedprox", "scaffold", "feddyn", "feddc"]


def test_there_are_trajectories() -> None:
    assert FILES, f"no .npz in {FOLDER}"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_follows_the_authors_code(file: Path, method: str) -> None:
    data = np.load(file)
    meta = json.loads(str(data["meta"]))
    algorithm = {
        "fedavg": feddc.FedAvg(),
        "fedprox": feddc.FedProx(mu=2 * meta["mu_fedprox"]),  # the published one has no ½
        "scaffold": feddc.Scaffold(form="feddc"),
        "feddyn": feddc.FedDyn(alpha=meta["alpha_feddyn"]),
        "feddc": feddc.FedDC(alpha=meta["alpha_feddc"]),
    }[method]
    training = feddc.LocalTraining(
        epochs=meta["local_epochs"],
        batch_size=None,
        lr=meta["lr"],
        lr_decay=meta["lr_decay"],
        weight_decay=meta["weight_decay"],
        clip_norm=meta["clip_norm"],
    )
    federation = feddc.Federation.from_arrays(data["x"], data["y"], sizes=data["sizes"])
    simulation = feddc.Simulation(
        algorithm,
        build(meta, data["init"]),
        federation,
        rounds=meta["rounds"],
        cohorts=data["selected"],
        training=training,
    )
    for record in simulation.run():
        t = record.round - 1
        assert_close(simulation.server.model, data[f"{method}/global"][t])
        if f"{method}/selected" in data:
            # FedDyn and FedDC: w = mean θ_i over the cohort + mean h_i over all clients.
            assert_close(simulation.server.model - simulation.server.drift, data[f"{method}/selected"][t])


def build(meta: dict[str, int | str], init: np.ndarray) -> nn.Module:
    dim, classes = int(meta["dim"]), int(meta["classes"])
    name = str(meta["model"])
    if name == "linear":
        model = nn.Sequential(nn.Linear(dim, classes))
    else:
        assert name.startswith("mlp"), f"unknown model {name}: linear, or mlp and the width of its hidden layer"
        hidden = int(name.removeprefix("mlp"))
        model = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, classes))
    nn.utils.vector_to_parameters(torch.from_numpy(init), model.parameters())
    return model


def assert_close(found: torch.Tensor, wanted: np.ndarray) -> None:
    error = np.linalg.norm(found.numpy() - wanted) / np.linalg.norm(wanted)
    assert error < 1e-5
