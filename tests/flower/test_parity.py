"""The same federation, seed and cohorts give the same model on Flower and in the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import feddc
from feddc.algorithms import METHODS as REGISTRY, make_method
from feddc.flower import Settings, client_app
from feddc.flower.server.coordinator import Coordinator
from tests.flower import task
from tests.flower.fake import FakeGrid

METHODS = [
    *map(make_method, REGISTRY),
    feddc.FedProx(mu=0.1),
    feddc.FedDyn(alpha=0.1),
    feddc.FedDC(alpha=0.1),
    feddc.FedDC(alpha=0.1, server=feddc.Yogi()),
    feddc.FedDC(alpha=0.1, form="paper"),
    feddc.FedDC(alpha=0.1, correction=False),
    feddc.Scaffold(server=feddc.SGD(lr=0.5, momentum=0.9)),
    feddc.FedLESAM(base="scaffold"),
    feddc.FedLESAM(base="feddyn"),
]
SETTINGS = Settings(clients=5, rounds=4, participation=0.5, seed=3, wait=0, answer_within=0.01, training=task.TRAINING)


def coordinator(algorithm: Any, folder: Path, model: Any = task.make_model, **changes: Any) -> Coordinator:
    app = client_app(task.load_client, model)
    settings = SETTINGS.__class__(**{**vars(SETTINGS), "folder": str(folder / "server"), **changes})
    return Coordinator(FakeGrid(app, 5, folder / "clients"), algorithm, model(), settings, task.load_test())


def simulated(algorithm: Any, model: Any = task.make_model, **changes: Any) -> tuple[list[feddc.Record], Any]:
    options: dict[str, Any] = {"rounds": 4, "participation": 0.5, "seed": 3, "executor": "in-process"}
    simulation = feddc.Simulation(algorithm, model(), task.federation(), training=task.TRAINING, **options | changes)
    return list(simulation.run()), simulation


@pytest.mark.parametrize("algorithm", METHODS, ids=str)
def test_flower_equals_the_simulator(algorithm: Any, tmp_path: Path) -> None:
    run = coordinator(algorithm, tmp_path)
    records, (expected, simulation) = list(run.run()), simulated(algorithm)
    torch.testing.assert_close(run.progress.server, simulation.server, rtol=1e-5, atol=1e-6)
    assert [r.participants for r in records] == [r.participants for r in expected]
    assert any(len(r.participants) < 5 for r in records)
    assert [(r.bytes_up, r.bytes_down) for r in records] == [(r.bytes_up, r.bytes_down) for r in expected]
    assert records[-1].accuracy == expected[-1].accuracy
    assert records[-1].loss == pytest.approx(expected[-1].loss, rel=1e-5)


def test_buffers_dropout_and_fixed_cohorts_too(tmp_path: Path) -> None:
    changes = {"participation": None, "cohort_size": 3}
    run = coordinator(feddc.FedDC(), tmp_path, task.make_model_with_buffers, **changes)
    records, (expected, simulation) = list(run.run()), simulated(feddc.FedDC(), task.make_model_with_buffers, **changes)
    torch.testing.assert_close(run.progress.server.model, simulation.server.model, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(run.progress.buffers, simulation.buffers, rtol=1e-4, atol=1e-6)
    assert [(r.bytes_up, r.bytes_down) for r in records] == [(r.bytes_up, r.bytes_down) for r in expected]


def test_what_is_sent_is_float32_and_only_what_the_method_needs(tmp_path: Path) -> None:
    wanted = {feddc.FedAvg(): {"model"}, feddc.FedDC(): {"model", "variate"}, feddc.FedDC(correction=False): {"model"}}
    for number, (algorithm, names) in enumerate(wanted.items()):
        run = coordinator(algorithm, tmp_path / str(number))
        list(run.run())
        grid: Any = run.members.grid
        for message in grid.sent[5:]:
            arrays = message.content["arrays"]
            assert set(arrays) == names
            assert all(array.dtype == "float32" for array in arrays.values())


def test_the_server_keeps_as_much_for_many_clients_as_for_few(tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path)
    list(run.run())
    kept = (tmp_path / "server" / "feddc" / "server" / "state.safetensors").stat().st_size
    assert kept < 4 * run.progress.server.model.nbytes + 3000
