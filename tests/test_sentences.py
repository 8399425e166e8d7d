"""Mistakes that used to end in a traceback, a wrong word, or silence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from torch import nn

import feddc
from feddc.algorithms import make_method
from feddc.cli.options import typed
from feddc.study.cells import Cell
from feddc.study.config import resolve
from feddc.study.sources import Named
from feddc.study.study import Study
from tests.conftest import FAST


class Texts:
    """A data set whose labels are texts."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> tuple[Any, str]:
        return np.zeros(3, dtype=np.float32), "cat"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: feddc.Federation.from_dataset(iter([1, 2]), clients=2), "give a map-style dataset"),
        (lambda: feddc.Federation.from_dataset(Texts(), clients=2), "do not fit together"),
        (lambda: feddc.Federation.from_arrays(np.zeros((2, 3)), ["a", "b"], clients=1), "texts such as 'a'"),
        (lambda: feddc.from_csv("no/where.csv"), "there is no file or folder no/where.csv"),
    ],
)
def test_data_that_cannot_be_used(make: Callable[[], object], words: str) -> None:
    with pytest.raises(feddc.DataError, match=words):
        make()


@pytest.mark.parametrize("callbacks", [[print], print, [feddc.Callback]])
def test_callbacks_that_are_none(callbacks: Any, federation: feddc.Federation, model: nn.Module) -> None:
    with pytest.raises(feddc.ConfigError, match=r"callbacks must be a list of feddc\.Callback objects, not"):
        feddc.simulate(feddc.FedAvg(), model, federation, rounds=1, callbacks=callbacks)


def test_an_option_that_does_not_exist(federation: feddc.Federation, model: nn.Module) -> None:
    with pytest.raises(feddc.ConfigError, match="unknown option 'particpation': did you mean 'participation'"):
        feddc.train(feddc.FedAvg(), model, federation, rounds=1, particpation=0.5)  # type: ignore[call-arg]


def test_a_target_is_a_share(federation: feddc.Federation, model: nn.Module) -> None:
    result = feddc.train(feddc.FedAvg(), model, federation, rounds=1, training=FAST)
    with pytest.raises(feddc.ConfigError, match=r"target must be a share, at most 1: 95 % is 0\.95"):
        result.rounds_to(95)
    with pytest.raises(feddc.ConfigError, match="share"):
        result.bytes_to(95)
    assert result.rounds_to(0.01) == 1


def test_the_training_of_a_simulation_is_fixed(federation: feddc.Federation, model: nn.Module) -> None:
    simulation = feddc.Simulation(feddc.FedAvg(), model, federation, rounds=2, training=FAST)
    simulation.step()
    with pytest.raises(feddc.ConfigError, match="make another Simulation"):
        simulation.training = feddc.LocalTraining(lr=1.0)
    assert simulation.training == FAST


@pytest.mark.parametrize(
    ("method", "hint"),
    [
        ("fedavg", " or a smaller clip norm"),
        ("feddc", ", a smaller clip norm or a larger alpha"),
        ("feddc:steps=nominal", ", a smaller clip norm, steps=own or a larger alpha"),
        ("fedlesam:base=feddyn", ", a smaller clip norm or a larger alpha"),
        ("fedlesam", " or a smaller clip norm"),
        ("fedprox", ", a smaller clip norm or a larger mu"),
        ("fedadam", ", a smaller clip norm or a smaller learning rate of the server"),
    ],
)
def test_the_hint_fits_the_method(method: str, hint: str, federation: feddc.Federation, model: nn.Module) -> None:
    wild = feddc.LocalTraining(lr=1e30, clip_norm=None)
    with pytest.raises(feddc.DivergedError) as error:
        feddc.train(make_method(method), model, federation, rounds=2, training=wild)
    assert str(error.value).endswith(f"; try a smaller learning rate{hint}")


def test_estimating_does_not_refuse_a_gpu(tmp_path: Path) -> None:
    config = replace(resolve({"rounds": 2, "clients": 6, "epochs": 1}), device="cuda", executor="vectorised")
    study = Study("study", (Cell("", "row", "", config),), tmp_path)
    likely, most = study.estimate(Named(), study.cells)
    assert 0 < likely <= most


def test_the_command_as_it_was_typed() -> None:
    seen = []

    @click.command("reproduce")
    @click.argument("study")
    @click.option("--over", multiple=True)
    @click.option("--weights")
    @click.option("--drift/--no-drift", default=None)
    @click.option("--seeds", default="0")
    @click.option("--quiet", is_flag=True)
    def command(**_: Any) -> None:
        seen.append(typed("quiet"))

    words = ["tiny", "--over", "lr=1,2", "--over", "seed=0", "--weights", "my weights.pt", "--no-drift", "--quiet"]
    command.main(words, standalone_mode=False)
    assert seen == ["feddc reproduce tiny --over lr=1,2 --over seed=0 --weights 'my weights.pt' --no-drift"]
