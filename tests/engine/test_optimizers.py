"""Local optimisers are torch's; steps and schedules are what they say; methods that assume SGD refuse others."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import feddc
from tests.conftest import make_federation

OPTIMIZERS: list[tuple[dict[str, Any], Any]] = [
    ({"optimizer": "adam"}, lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1)),
    ({"optimizer": "adamw"}, lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1)),
    ({"momentum": 0.9}, lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.1)),
    ({"momentum": 0.9, "nesterov": True}, lambda p: torch.optim.SGD(p, 0.01, 0.9, weight_decay=0.1, nesterov=True)),
]


@pytest.mark.parametrize(("options", "make"), OPTIMIZERS)
def test_one_client_trains_as_torch_s_optimiser(options: dict[str, Any], make: Any, model: nn.Module) -> None:
    federation = make_federation([20])
    training = feddc.LocalTraining(
        steps=7, batch_size=None, lr=0.01, lr_decay=1.0, weight_decay=0.1, clip_norm=1.0, **options
    )
    found = feddc.train(feddc.FedAvg(), model, federation, rounds=1, training=training, executor="in-process").model
    optimizer = make(model.parameters())
    for _ in range(7):
        optimizer.zero_grad()
        F.cross_entropy(model(federation.x), federation.y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    for ours, theirs in zip(found.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_steps_instead_of_epochs(model: nn.Module) -> None:
    """The same number of updates for a client of 9 samples and one of 30."""
    federation = make_federation([9, 30])
    training = feddc.LocalTraining(steps=4, batch_size=5)
    simulation = feddc.Simulation(feddc.Scaffold(), model, federation, rounds=1, training=training)
    assert simulation.steps.flatten().tolist() == [4, 4]
    assert simulation.nominal == 4
    passes = feddc.LocalTraining(epochs=2, batch_size=5)
    same = make_federation([20, 20])  # 2 × 4 steps
    by_steps, by_epochs = (
        feddc.train(feddc.FedDC(), model, same, rounds=2, training=each).records[-1].metrics
        for each in (feddc.LocalTraining(steps=8, batch_size=5), passes)
    )
    assert by_steps == by_epochs


def test_schedules() -> None:
    flat = {"lr": 0.1, "lr_decay": 1.0}
    warm = feddc.LocalTraining(**flat, warmup=3)
    assert [round(warm.lr_in(t), 6) for t in (1, 2, 3, 4, 5)] == [0.025, 0.05, 0.075, 0.1, 0.1]
    falling = feddc.LocalTraining(**flat, cosine=10)
    assert falling.lr_in(1) == 0.1
    assert falling.lr_in(6) == pytest.approx(0.05)
    assert falling.lr_in(10) == falling.lr_in(99) == pytest.approx(0.05 * (1 + math.cos(0.9 * math.pi)))
    assert all(falling.lr_in(t) > falling.lr_in(t + 1) > 0 for t in range(1, 10))


def halved(round: int) -> float:
    return 0.2 / 2**round


def test_a_rate_for_every_round() -> None:
    listed = feddc.LocalTraining(lr=[0.1, 0.05, 0.01])  # type: ignore[arg-type]
    assert [listed.lr_in(t) for t in (1, 2, 3, 9)] == [0.1, 0.05, 0.01, 0.01]
    assert listed == feddc.LocalTraining(rates="0.1,0.05,0.01") == replace(listed)
    assert (listed.lr, listed.schedule(2, 5).rate) == (0.1, 0.05)
    named = feddc.LocalTraining(lr=halved)  # type: ignore[arg-type]
    assert named.rates == f"{__name__}:halved"
    assert [named.lr_in(t) for t in (1, 2)] == [0.1, 0.05]
    unnamed = feddc.LocalTraining(rates=lambda t: 1 / t)
    assert (unnamed.lr, replace(unnamed, sam=0.1).lr_in(4)) == (1, 0.25)


def test_a_schedule_trains_as_its_rates_do_and_is_kept(tmp_path: Path, model: nn.Module) -> None:
    federation, flat = make_federation([20, 20]), {"lr": 0.1, "lr_decay": 0.5}
    options: Any = {"rounds": 3, "algorithm": feddc.FedAvg(), "model": model, "federation": federation}
    wanted = feddc.train(**options, training=feddc.LocalTraining(**flat)).records  # type: ignore[arg-type]
    for rates in ("0.1,0.05,0.025", lambda t: 0.2 / 2**t, halved):
        found = feddc.train(**options, training=feddc.LocalTraining(rates=rates)).records  # type: ignore[arg-type]
        assert [each.metrics for each in found] == [each.metrics for each in wanted]
    feddc.train(**options, training=feddc.LocalTraining(rates=halved), out=tmp_path / "kept")
    assert f'rates = "{__name__}:halved"' in (tmp_path / "kept" / "config.toml").read_text()
    with pytest.raises(feddc.ConfigError, match="cannot be stored in a run directory"):
        feddc.train(**options, training=feddc.LocalTraining(rates=lambda t: 1 / t), out=tmp_path / "not")
    assert not (tmp_path / "not").exists()


@pytest.mark.parametrize("method", [feddc.Scaffold(), feddc.FedDC()])
def test_a_variate_assumes_sgd(method: Any, model: nn.Module) -> None:
    training = feddc.LocalTraining(optimizer="adam", lr=0.001)
    with pytest.raises(feddc.ConfigError, match="for a mean gradient, which it is with SGD and not with adam"):
        feddc.train(method, model, make_federation([9, 9]), rounds=1, training=training)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"nesterov": True}, "nesterov needs momentum"),
        ({"optimizer": "adam", "momentum": 0.9}, "adam has its own moments"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], sentence: str, model: nn.Module) -> None:
    training = feddc.LocalTraining(**options)
    with pytest.raises(feddc.ConfigError, match=sentence):
        feddc.train(feddc.FedAvg(), model, make_federation([9]), rounds=1, training=training)


@pytest.mark.parametrize("method", [feddc.FedAvg(), feddc.FedProx(), feddc.FedDyn(), feddc.FedDC(correction=False)])
def test_other_methods_take_any_optimiser(method: Any, model: nn.Module) -> None:
    training = feddc.LocalTraining(optimizer="adamw", lr=0.01)
    records = feddc.train(method, model, make_federation([20, 20]), rounds=5, training=training).records
    assert records[-1].metrics["loss"] < records[0].metrics["loss"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"steps": 0}, "steps must be a whole number, 1 or more"),
        ({"optimizer": "adamm"}, "unknown optimizer 'adamm': did you mean 'adam'"),
        ({"warmup": -1}, "warmup must be a whole number, 0 or more"),
        ({"cosine": 0}, "cosine must be a whole number, 1 or more"),
        ({"lr": [0.1, 0.0]}, "the learning rate of round 2 must be above 0, not 0.0"),
        ({"lr": []}, "rates must be numbers with commas between them"),
        ({"lr": ["fast"]}, "a list of numbers, a function of the round"),
        ({"rates": "0.1;0.2"}, "rates must be numbers with commas between them, or module:function"),
        ({"rates": lambda _: None}, "the learning rate of round 1 must be a number, not None"),
        ({"rates": "math:exp2x"}, "unknown learning-rate schedule in math 'exp2x'"),
        ({"lr": [0.1], "cosine": 9}, "leave warmup and cosine out"),
    ],
)
def test_bad_options(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(feddc.ConfigError, match=sentence):
        feddc.LocalTraining(**options)
