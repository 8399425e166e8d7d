"""Python as a door: run directories for objects that no registry knows, continued, returned, read and reported."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import feddc
from feddc.algorithms import METHODS, make_method
from feddc.algorithms.fedavg import FedAvg
from feddc.study.api import method_text
from feddc.study.rundir import RunDir, read_records
from tests.cli.test_cli import feddc as command
from tests.conftest import FAST


class Net(nn.Module):
    """A network that no registry knows."""

    def __init__(self, features: int = 64, classes: int = 10) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(features, 7), nn.Tanh(), nn.Linear(7, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(x)
        return out


@dataclass(frozen=True)
class Mine(FedAvg):
    """A method that no registry knows."""

    beta: float = 0.5


class CrashError(Exception):
    pass


def same(one: feddc.Result, two: feddc.Result) -> bool:
    pairs = zip(one.model.state_dict().values(), two.model.state_dict().values(), strict=True)
    records = [[(r.round, r.metrics, r.participants) for r in each.records] for each in (one, two)]
    return records[0] == records[1] and all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_object_as_text(name: str) -> None:
    made = make_method(name)
    assert make_method(method_text(made)) == made


def test_text_of_methods_with_options() -> None:
    assert method_text(feddc.FedDC(alpha=0.3)) == "feddc:alpha=0.3"
    assert method_text(feddc.FedAvg()) == "fedavg"
    assert method_text(Mine(beta=0.25)) == "Mine:beta=0.25"
    yogi = feddc.FedDC(alpha=0.01, server=feddc.Yogi(lr=0.02))
    assert make_method(method_text(yogi)) == yogi


def test_out_changes_nothing_and_the_same_call_returns_what_is_there(
    tmp_path: Path, federation: feddc.Federation
) -> None:
    def call(out: Path | None = None, method: Any = Mine(), width: int = 3, **more: Any) -> feddc.Result:
        arguments = {"rounds": 3, "training": FAST, "seed": 4, "participation": 0.6} | more
        return feddc.train(method, Net(6, width), federation, out=out, **arguments)

    first = call(tmp_path / "run")
    assert same(first, call())
    before = (tmp_path / "run" / "records.jsonl").stat().st_mtime_ns
    assert same(call(tmp_path / "run"), first)
    assert (tmp_path / "run" / "records.jsonl").stat().st_mtime_ns == before
    with pytest.raises(feddc.ConfigError, match="holds a run with other settings: seed is 4 there and 5 here"):
        call(tmp_path / "run", seed=5)
    with pytest.raises(feddc.ConfigError, match="holds a run with another model"):
        call(tmp_path / "run", width=4)
    with pytest.raises(feddc.ConfigError, match=r"method is 'Mine' there and 'Mine:beta=0\.1' here"):
        call(tmp_path / "run", Mine(beta=0.1))


def test_an_interrupted_call_is_continued(
    tmp_path: Path, federation: feddc.Federation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(out: Path) -> feddc.Result:
        return feddc.train(feddc.FedDC(), Net(6, 3), federation, rounds=5, training=FAST, checkpoint="2", out=out)

    whole = call(tmp_path / "whole")
    add = RunDir.add

    def crash(self: RunDir, record: feddc.Record) -> None:
        add(self, record)
        if record.round == 4:
            raise CrashError

    with monkeypatch.context() as patch:
        patch.setattr(RunDir, "add", crash)
        with pytest.raises(CrashError):
            call(tmp_path / "parts")
    assert command("resume", str(tmp_path / "parts")) == 2
    assert "was begun from Python" in capsys.readouterr().err
    assert feddc.load_run(tmp_path / "parts").status == "unfinished"
    assert same(call(tmp_path / "parts"), whole)
    assert "continuing after round 2" in capsys.readouterr().err


def test_a_network_of_ones_own_beside_the_zoos(tmp_path: Path) -> None:
    """The report of a run from Python and one from the command line, on the same federation."""
    federation = feddc.load("digits", clients=6, split="dirichlet:0.1")
    feddc.train(
        "feddc:alpha=0.1", Net(), federation, rounds=2, participation=0.3, out=tmp_path / "runs" / "mine",
        training=feddc.LocalTraining(epochs=1, batch_size=10),
    )  # fmt: skip
    options = ["--rounds", "2", "--epochs", "1", "--clients", "6", "--quiet", "--out", str(tmp_path / "runs" / "zoo")]
    assert command("run", *options) == 0
    page = tmp_path / "page.html"
    assert command("report", str(tmp_path / "runs" / "zoo"), str(tmp_path / "runs" / "mine"), "-o", str(page)) == 0
    text = page.read_text()
    assert "model Net" in text
    assert "model fcn:100" in text


def test_a_comparison_from_python(tmp_path: Path, federation: feddc.Federation) -> None:
    methods = [feddc.FedAvg(), Mine(), "feddc:alpha=0.2"]
    options: Any = {"rounds": 2, "training": FAST, "seeds": (0, 1)}
    found = feddc.compare(methods, lambda seed: Net(6, 3 + seed), federation, **options, out=tmp_path / "c")
    assert list(found) == ["fedavg", "Mine", "feddc"]
    assert all(len(results) == 2 for results in found.values())
    assert sorted(p.name for p in (tmp_path / "c").iterdir()) == sorted(
        f"{name}-s{seed}" for name in found for seed in (0, 1)
    )
    alone = feddc.train(feddc.FedAvg(), Net(6, 4), federation, rounds=2, training=FAST, seed=1)
    assert same(found["fedavg"][1], alone)
    again = feddc.compare(methods, lambda seed: Net(6, 3 + seed), federation, **options, out=tmp_path / "c")
    assert all(same(*pair) for name in found for pair in zip(found[name], again[name], strict=True))
    one = feddc.compare(methods[:1], Net(6, 3), federation, rounds=2, training=FAST)
    assert same(one["fedavg"][0], found["fedavg"][0])


def test_a_comparison_side_by_side(tmp_path: Path, federation: feddc.Federation) -> None:
    options: Any = {"rounds": 2, "training": FAST}
    one = feddc.compare(["fedavg", Mine()], Net(6, 3), federation, **options)
    two = feddc.compare(["fedavg", Mine()], Net(6, 3), federation, **options, out=tmp_path / "c", jobs=2)
    assert all(same(one[name][0], two[name][0]) for name in one)
    made = feddc.compare(["fedavg", Mine()], lambda seed: Net(6, 3), federation, **options, jobs=2)  # noqa: ARG005
    assert all(same(one[name][0], made[name][0]) for name in one)
    lock = threading.Lock()
    with pytest.raises(feddc.ConfigError, match="cannot be sent to other processes"):
        feddc.compare(["fedavg", "feddc"], lambda seed: Net(6, 3 + lock.locked() * seed), federation, **options, jobs=2)
    with pytest.raises(feddc.ConfigError, match="leave jobs at 1"):
        feddc.compare(["fedavg"], Net(6, 3), federation, **options, jobs=2, callbacks=[feddc.Callback()])


def test_divergence(tmp_path: Path, federation: feddc.Federation) -> None:
    wild = feddc.LocalTraining(lr=1e30, clip_norm=None)
    for _ in range(2):  # run, then read
        with pytest.raises(feddc.DivergedError, match="diverged"):
            feddc.train("fedavg", Net(6, 3), federation, rounds=2, training=wild, out=tmp_path / "r")
    found = feddc.compare(["fedavg"], Net(6, 3), federation, rounds=2, training=wild)
    assert isinstance(found["fedavg"][0].error, feddc.DivergedError)
    assert feddc.load_run(tmp_path / "r").status == "diverged"


def test_load_run(tmp_path: Path, federation: feddc.Federation) -> None:
    result = feddc.train("fedavg", Net(6, 3), federation, rounds=2, training=FAST, out=tmp_path / "own")
    found = feddc.load_run(tmp_path / "own", model=Net(6, 3))
    assert same(found, result)
    assert found.config.epochs == FAST.epochs
    assert found.records == read_records(tmp_path / "own" / "records.jsonl")
    with pytest.raises(feddc.ConfigError, match="'Net' was given from Python; load_run"):
        feddc.load_run(tmp_path / "own").model(federation.x)
    with pytest.raises(feddc.RunError, match="cannot be loaded into this model"):
        feddc.load_run(tmp_path / "own", model=Net(6, 4))
    assert command("run", "--rounds", "1", "--clients", "6", "--quiet", "--out", str(tmp_path / "zoo")) == 0
    model = feddc.load_run(tmp_path / "zoo").model
    assert model(torch.zeros(2, 64)).shape == (2, 10)
    with pytest.raises(feddc.RunError, match="there is no folder"):
        feddc.load_run(tmp_path / "none")
    with pytest.raises(feddc.RunError, match="holds no run"):
        feddc.load_run(tmp_path)


def test_the_seed_is_given_once(tmp_path: Path) -> None:
    def digits(seed: int) -> feddc.Federation:
        return feddc.load("digits", clients=6, split="dirichlet:0.1", seed=seed)

    training = feddc.LocalTraining(epochs=1, batch_size=10)
    found = feddc.train("fedavg", "fcn:100", digits, rounds=2, participation=0.3, training=training, seed=3)
    options = ["--method", "fedavg", "--rounds", "2", "--epochs", "1", "--clients", "6", "--seed", "3", "--quiet"]
    assert command("run", *options, "--out", str(tmp_path / "r")) == 0
    assert same(found, feddc.load_run(tmp_path / "r"))


def test_split_seed_and_model_seed(tmp_path: Path) -> None:
    options = ["--rounds", "1", "--epochs", "1", "--clients", "6", "--method", "fedavg", "--quiet"]
    for name, more in {"0": [], "3": ["--seed", "3"], "split": ["--seed", "3", "--split-seed", "0"],
                       "model": ["--seed", "3", "--model-seed", "0"]}.items():  # fmt: skip
        assert command("run", *options, *more, "--out", str(tmp_path / name)) == 0
    split = {name: (tmp_path / name / "split.json").read_text() for name in ("0", "3", "split", "model")}
    assert split["0"] == split["split"] != split["3"] == split["model"]
    cohorts = {name: feddc.load_run(tmp_path / name).records[0].participants for name in split}
    assert cohorts["3"] == cohorts["split"] == cohorts["model"] != cohorts["0"]
    models = {name: feddc.load_run(tmp_path / name).model.state_dict()["1.weight"] for name in split}
    assert not torch.equal(models["3"], models["model"])
