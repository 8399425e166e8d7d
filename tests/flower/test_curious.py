"""A server that asks odd questions of a site that runs the pinned app: what the site does, keeps and gives away."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Context, Message, RecordDict

import feddc
from feddc.errors import FedDCError
from feddc.flower import client_app
from feddc.flower.client.training import ClientSpec, TrainingClient
from feddc.flower.failures import report
from feddc.flower.packets import CONFIG, NONCE, Packet
from tests.flower import task
from tests.flower.fake import FakeGrid
from tests.flower.test_faults import grid_of
from tests.flower.test_parity import coordinator

PLAN = {name: value for name, value in vars(feddc.LocalTraining(epochs=1)).items() if value is not None}
QUESTION: dict[str, Any] = {
    "ask": "train",
    "experiment": "honest",
    "round": 1,
    "seen": 0,
    "oldest": 0,
    "weight": 1.0,
    "steps": 1,
    "seed": 0,
    "compress": "none",
    "classes": [],
    "method": "FedDyn",
    **{f"training.{name}": value for name, value in PLAN.items()},
}


def site(folder: Path, **node: Any) -> TrainingClient:
    about = (("partition-id", 0), *node.items())
    names = "tests.flower.task:load_client", "tests.flower.task:make_model"
    return TrainingClient(ClientSpec(*names, (), about, str(folder / "state")))


def asked(client: TrainingClient, **changes: Any) -> Packet:
    return Packet(QUESTION | changes, {"model": client.model.params.clone().numpy()})


@pytest.mark.parametrize(
    "changes",
    [
        *({"experiment": name} for name in ("../../x", "/etc/x", "a/b", "..", "", "a\0b", "x" * 300)),
        *({"round": value} for value in (-1, "../1", None)),
        {"seen": "../1"},
        *({"weight": value} for value in (float("nan"), float("inf"), -1.0, 1e30, "x")),
        {"steps": "x"},
        {"seed": -1},
        {"compress": "../x"},
        {"ask": "../x"},
        {"method": "os.system"},
        {"method.server": "os:system"},
        {"method.__class__": "x"},
        {"method.alpha": float("nan")},
        {"training.rates": "os:system"},
        {"training.batch_size": -5},
        {"training.epochs": 10**9},
        {"training.lr": float("nan")},
        {"training.optimizer": "os"},
        {"guard.clip": float("nan")},
        {"guard.noise": -1.0},
        {"guard.bits": 64},
    ],
    ids=str,
)
def test_an_odd_question_is_refused_and_leaves_nothing(changes: dict[str, Any], tmp_path: Path) -> None:
    client = site(tmp_path)
    with pytest.raises((FedDCError, ValueError, TypeError, AttributeError)) as refusal:
        client.answer(asked(client, **changes))
    assert set(report(refusal.value)) == {"failed", "place"}
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    "arrays",
    [
        {"model": np.zeros(3, np.float32)},
        {"model": np.float32(1)},
        {"model": np.full(83, np.nan, np.float32)},
        {"../x": np.zeros(3)},
        {"buffer.x": np.zeros(3)},
        {"agreed.mean": np.zeros((3, 3), np.float32), "agreed.deviation": np.zeros(6, np.float32)},
    ],
    ids=lambda arrays: ",".join(arrays),
)
def test_odd_arrays_are_refused_and_leave_nothing(arrays: dict[str, Any], tmp_path: Path) -> None:
    client = site(tmp_path)
    honest = asked(client)
    with pytest.raises((FedDCError, ValueError, TypeError)):
        client.answer(Packet(honest.config, honest.arrays | arrays))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def shown(client: TrainingClient) -> torch.Tensor:
    """The row that a server finds in the update of one step on one sample."""
    answer = client.answer(asked(client, **{"training.steps": 1, "training.batch_size": 1, "training.lr": 1.0}))
    delta = torch.from_numpy(answer.arrays["delta"])
    weights, biases = delta[:48].view(8, 6), delta[48:56]  # the first layer
    return (weights / biases.unsqueeze(1))[biases.abs().argmax()]


def test_one_step_on_one_sample_shows_the_row_unless_the_site_demands_noise_or_masks(tmp_path: Path) -> None:
    rows = task.load_client({"partition-id": 0})[0].flatten(1)

    def gap(found: torch.Tensor) -> float:
        return float((rows - found).abs().max(dim=1).values.min())

    assert gap(shown(site(tmp_path / "bare"))) < 0.01  # the page says that updates can reveal samples: this is how
    assert gap(shown(site(tmp_path / "noise", **{"update-clip": 1.0, "update-noise": 1.0}))) > 0.1
    with pytest.raises(feddc.ConfigError, match="under masks only"):
        shown(site(tmp_path / "masked", **{"secure-least": 3}))


def test_nobody_can_work_out_the_name_of_a_question_to_another(tmp_path: Path) -> None:
    run = coordinator(feddc.FedAvg(), tmp_path)
    list(run.run())
    secrets = [str(message.content[CONFIG][NONCE]) for message in grid_of(run).sent]
    assert len(set(secrets)) == len(secrets) > 10
    assert {len(each) for each in secrets} == {32}


class Smuggler(FakeGrid):
    """An operator who puts a site's own settings, and what looks like an environment, into the run's config."""

    def _run(self, client: int, message: Message) -> Message:
        config = {"state-dir": str(self.folder / "taken"), "partition-id": 0, "data": "/etc/passwd", "PATH": "/taken"}
        context = Context(1, message.metadata.dst_node_id, self.node_config(client), RecordDict(), config)  # type: ignore[arg-type]
        return self.app(message, context)


def test_a_site_takes_no_setting_of_its_own_from_the_config_of_a_run(tmp_path: Path) -> None:
    run = coordinator(feddc.FedAvg(), tmp_path, participation=None, rounds=1)
    before = dict(os.environ)
    run.members.grid = run.questions.grid = Smuggler(
        client_app(task.load_client, task.make_model), 5, tmp_path / "clients"
    )
    [record] = run.run()
    assert record.participants == (0, 1, 2, 3, 4)
    assert dict(os.environ) == before
    assert not (tmp_path / "clients" / "taken").exists()
