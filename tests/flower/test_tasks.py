"""Any task and any score, through to records, sites' scores, the best model and the report; and a site's own device."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torchmetrics.classification import BinaryAUROC

import feddc
from feddc.cli import main
from feddc.engine.records import Record
from feddc.flower import Samples, Settings, client_app
from feddc.flower.client.training import ClientSpec, TrainingClient
from feddc.flower.samples import read_table
from feddc.flower.server.coordinator import Coordinator
from feddc.flower.server.judging import mean_measures
from feddc.storage import tensors
from tests.flower import task
from tests.flower.fake import FakeGrid
from tests.flower.test_parity import coordinator

TRAINING = feddc.LocalTraining(epochs=1, batch_size=10, lr=0.05)
AUROC = feddc.make_task(
    nn.BCEWithLogitsLoss(reduction="none"), {"AUROC": BinaryAUROC()}, score="AUROC", higher_is_better=True
)


def one_output() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 1)


def numbers(client: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(client)
    x = rng.normal(size=(40, 3)).astype(np.float32)
    return x, (x @ np.array([1.0, -2.0, 0.5]) + 0.1 * rng.normal(size=40)).astype(np.float32)


def regression(node: Mapping[str, Any]) -> Samples:
    x, y = numbers(int(node["partition-id"]))
    return Samples(x[:30], y[:30], (x[30:], y[30:]), task=feddc.Regression())


def auroc(node: Mapping[str, Any]) -> Samples:
    """Client 2 holds out samples of one class only: it has no AUROC."""
    x, y = numbers(int(node["partition-id"]))
    label = (y > 0).astype(np.float32)[:, None]
    held = label[30:] * 0 if node["partition-id"] == 2 else label[30:]
    return Samples(x[:30], label[:30], (x[30:], held), task=AUROC)


def regression_test() -> Samples:
    return Samples(*numbers(99), task=feddc.Regression())


def run_of(load: Any, folder: Path, test: Any = None, **changes: Any) -> Coordinator:
    settings = Settings(clients=3, rounds=4, wait=0, folder=str(folder / "server"), training=TRAINING, **changes)
    grid = FakeGrid(client_app(load, one_output), 3, folder / "clients")
    return Coordinator(grid, feddc.FedDC(), one_output(), settings, test)


def best_round(folder: Path) -> str:
    return tensors.read(folder / "server" / "feddc" / "server" / "best.safetensors")[1]["round"]


@pytest.mark.parametrize("tested", [False, True])
def test_regression_is_judged_by_its_error(tested: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "flwr")
    records = list(run_of(regression, tmp_path, regression_test() if tested else None).run())
    score = records[-1].score
    assert not score.higher_is_better
    values = [record.value for record in records]
    assert None not in values
    assert values[-1] < values[0]
    sites = {site.client: site.measures[score.name] for site in records[-1].sites if site.measures}
    assert sorted(sites) == [0, 1, 2]
    worst = max(sites, key=sites.__getitem__)
    assert f"{score.name} {values[-1]:.4f}, worst site {worst} with {sites[worst]:.4f}" in caplog.text
    assert best_round(tmp_path) == str(1 + values.index(min(values)))
    if not tested:
        assert values[-1] == pytest.approx(np.mean([*sites.values()]))


def test_auroc_is_the_mean_over_the_sites_that_have_one(tmp_path: Path) -> None:
    records: list[Record] = list(run_of(auroc, tmp_path).run())
    score = records[-1].score
    assert (score.name, score.higher_is_better) == ("AUROC", True)
    sites = {site.client: site.measures for site in records[-1].sites}
    assert "AUROC" not in sites[2]
    assert records[-1].value == pytest.approx((sites[0]["AUROC"] + sites[1]["AUROC"]) / 2)
    assert records[-1].value > records[0].value
    values = [record.value for record in records]
    assert best_round(tmp_path) == str(max(range(4), key=lambda i: (values[i], i)) + 1)


def test_the_report_shows_each_sites_score(tmp_path: Path) -> None:
    list(run_of(auroc, tmp_path).run())
    with pytest.raises(SystemExit) as end:
        main(["report", str(tmp_path / "server"), "--output", str(tmp_path / "report.html")])
    assert end.value.code == 0
    page = (tmp_path / "report.html").read_text()
    assert "AUROC" in page
    assert "Sites:" in page


def test_a_site_that_judges_by_something_else(tmp_path: Path) -> None:
    def mixed(node: Mapping[str, Any]) -> Samples:
        return regression(node) if node["partition-id"] else auroc(node)

    import tests.flower.test_tasks as here

    here.mixed = mixed  # type: ignore[attr-defined]
    mixed.__qualname__ = "mixed"
    with pytest.raises(feddc.ConfigError, match=r"client 1 judges models by .*, and the others by AUROC"):
        list(run_of(mixed, tmp_path).run())
    with pytest.raises(feddc.ConfigError, match=r"the server's test set is judged by .*, but the sites' models by"):
        list(run_of(auroc, tmp_path / "other", regression_test()).run())


def test_a_mean_over_sites_counts_what_they_hold_out() -> None:
    found = mean_measures({0: {"samples": 10, "a": 1.0}, 1: {"samples": 30, "a": 2.0, "b": 5.0}, 2: {}})
    assert found == {"a": 1.75, "b": 5.0}
    assert mean_measures({}) == {}


def test_a_table_of_numbers_to_predict(tmp_path: Path) -> None:
    path = tmp_path / "stays.csv"
    path.write_text("age,days\n50,1.5\n60,2.5\n70,3.5\n")
    found = read_table(path, "days", 0.0, feddc.Regression())
    assert found.y.tolist() == [1.5, 2.5, 3.5]
    path.write_text("age,days\n50,long\n")
    with pytest.raises(feddc.DataError, match="has a label that is not a number"):
        read_table(path, "days", 0.0, feddc.Regression())


def without_the_last_class(node: Mapping[str, Any]) -> Any:
    x, y = task.load_client(node)
    return (x[y < 2], y[y < 2]) if node["partition-id"] == 1 else (x, y)


@pytest.mark.parametrize("algorithm", [feddc.FedLC(), feddc.FedNTD()])
def test_a_site_need_not_have_samples_of_every_class(algorithm: Any, tmp_path: Path) -> None:
    run = coordinator(algorithm, tmp_path, rounds=1, participation=None)
    run.members.grid = run.questions.grid = FakeGrid(
        client_app(without_the_last_class, task.make_model), 5, tmp_path / "clients"
    )
    [record] = run.run()
    assert record.participants == (0, 1, 2, 3, 4)


class Elsewhere(FakeGrid):
    """Sites with settings of their own."""

    own: Mapping[str, Any] = {}

    def node_config(self, client: int) -> dict[str, Any]:
        return {**super().node_config(client), **self.own}


@pytest.mark.parametrize("own", [{"device": "cpu:0"}, {"precision": "float32"}])
def test_a_site_decides_where_and_how_precisely_it_computes(own: dict[str, Any], tmp_path: Path) -> None:
    """On another device the same arithmetic; and a server that asks for bf16 does not decide for a site."""
    plain = coordinator(feddc.FedDC(), tmp_path / "plain", task.make_model_with_buffers, rounds=2)
    list(plain.run())
    asked = feddc.LocalTraining(**{**vars(task.TRAINING), "precision": "bf16"}) if "precision" in own else task.TRAINING
    run = coordinator(feddc.FedDC(), tmp_path, task.make_model_with_buffers, rounds=2, training=asked)
    grid = Elsewhere(client_app(task.load_client, task.make_model_with_buffers), 5, tmp_path / "clients")
    grid.own = own
    run.members.grid = run.questions.grid = grid
    list(run.run())
    torch.testing.assert_close(run.progress.server, plain.progress.server, rtol=1e-4, atol=1e-5)


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    node = (("device", "cuda:7"), ("partition-id", 0))
    spec = ClientSpec("tests.flower.task:load_client", "tests.flower.task:make_model", (), node, str(tmp_path))
    with pytest.raises(feddc.ConfigError, match="device 'cuda:7' cannot be used"):
        TrainingClient(spec)
