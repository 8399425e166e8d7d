"""bf16: only the products of a step are rounded, the same by every executor, and a run says where it does not pay."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

import feddc
from feddc.engine.local import precision
from feddc.engine.local.dense import DenseGradient, HalfDenseGradient, HalfDenseRows, dense_layers
from feddc.engine.local.functional import FunctionalGradient
from feddc.models import FlatModel


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "cpu_slowdown", lambda: 0.5)


def federation() -> feddc.Federation:
    torch.manual_seed(0)
    x, y = torch.randn(60, 1, 6, 6), torch.arange(60) % 3
    x += y[:, None, None, None]
    return feddc.Federation.from_arrays(x, y, sizes=[10, 20, 30], test=(x, y))


def convolution() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))


def dense() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 3))


def run(model: nn.Module, executor: str, kind: precision.Precision = "bf16", rounds: int = 2) -> torch.Tensor:
    training = feddc.LocalTraining(epochs=2, batch_size=8, precision=kind)
    workers = 2 if executor == "workers" else None
    done = feddc.train(
        feddc.FedDC(), model, federation(), rounds=rounds, training=training, executor=executor, workers=workers
    )
    return FlatModel(done.model).params


@pytest.mark.parametrize("model", [convolution, dense])
def test_bf16_rounds_and_executors_agree(model: Callable[[], nn.Module]) -> None:
    plain, half = run(model(), "in-process", "float32"), run(model(), "in-process")
    moved = float((plain - FlatModel(model()).params).norm())

    def apart(other: torch.Tensor) -> float:
        return float((half - other).norm()) / moved

    assert 1e-5 < apart(plain) < 0.05
    assert not torch.equal(half, half.bfloat16().float())  # weights and steps keep all their bits
    assert torch.equal(half, run(model(), "workers"))
    assert apart(run(model(), "vectorised")) < 0.05


def test_the_written_out_gradient_rounds_as_autocast_does() -> None:
    rows = 3
    layers = dense_layers(dense())
    assert layers is not None
    params = torch.randn(rows, FlatModel(dense()).params.numel()) / 4
    x, y = torch.randn(rows, 5, 36), torch.randint(3, (rows, 5))
    wanted, found, exact = (torch.zeros_like(params) for _ in range(3))
    FunctionalGradient(dense(), params, wanted, feddc.Classification(), "bf16")(x, y, 1 / 5)
    HalfDenseRows(layers, params, found)(x, y, 1 / 5)
    for k in range(rows):
        DenseGradient(layers, params[k], exact[k])(x[k], y[k])
    assert float((found - wanted).norm() / exact.norm()) < 0.01
    assert 1e-4 < float((found - exact).norm() / exact.norm()) < 0.03  # it rounds, by what 8 bits give
    alone = torch.zeros_like(params[0])
    HalfDenseGradient(layers, params[0], alone)(x[0], y[0])
    torch.testing.assert_close(alone, found[0])


@pytest.mark.parametrize("model", [convolution, dense])
def test_evaluation_in_bf16_rounds_the_products_alone_and_leaves_training_as_it_is(
    model: Callable[[], nn.Module],
) -> None:
    def judged(executor: str, kind: precision.Precision) -> tuple[float, nn.Module]:
        workers = 2 if executor == "workers" else None
        done = feddc.train(
            feddc.FedDC(),
            model(),
            federation().hold_out(0.2),
            rounds=2,
            evaluate_precision=kind,
            executor=executor,
            workers=workers,
            personal=True,
        )
        last = done.records[-1]
        assert last.clients is not None
        assert last.personal is not None
        return last.metrics["loss"], done.model

    (exact, trained), (half, same) = judged("in-process", "float32"), judged("in-process", "bf16")
    assert torch.equal(FlatModel(trained).params, FlatModel(same).params)
    assert 1e-6 < abs(half - exact) / exact < 0.02  # the loss itself is a sum in double precision of float32 outputs
    assert judged("workers", "bf16")[0] == half
    test = federation().test
    assert test is not None
    x, y = test
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        output = trained(x)
    wanted = nn.functional.cross_entropy(output.double(), y)
    assert half == pytest.approx(float(wanted), rel=1e-3)


def test_short_form_and_bad_names() -> None:
    simulation = feddc.Simulation(feddc.FedAvg(), dense(), federation(), rounds=1, precision="bf16")
    assert simulation.training == replace(feddc.LocalTraining(), precision="bf16")
    with pytest.raises(feddc.ConfigError, match="unknown precision 'bf61': did you mean 'bf16'"):
        feddc.LocalTraining(precision="bf61")  # type: ignore[arg-type]
    with pytest.raises(feddc.ConfigError, match="bf16 needs a model in float32, not float64"):
        feddc.Simulation(feddc.FedAvg(), dense().double(), federation(), rounds=1, precision="bf16")


def test_a_processor_that_only_imitates_it_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for slower in (62.0, 2.0):
        monkeypatch.setattr(precision, "cpu_slowdown", lambda slower=slower: slower)
        with pytest.warns(UserWarning, match=f"one takes {slower:g} times as long as in float32"):
            feddc.Simulation(feddc.FedAvg(), dense(), federation(), rounds=1, precision="bf16")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        feddc.Simulation(feddc.FedAvg(), dense(), federation(), rounds=1)
        monkeypatch.setattr(precision, "cpu_slowdown", lambda: 1.5)
        feddc.Simulation(feddc.FedAvg(), dense(), federation(), rounds=1, precision="bf16")


def test_the_slowdown_is_that_of_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {torch.bfloat16: 6.0, torch.float32: 2.0}
    monkeypatch.undo()
    threads = []

    def timed(rows: torch.Tensor) -> float:
        threads.append(torch.get_num_threads())
        return seconds[rows.dtype]

    monkeypatch.setattr(precision, "_best", timed)
    precision.cpu_slowdown.cache_clear()
    before = torch.get_num_threads()
    assert precision.cpu_slowdown() == 3.0
    assert threads == [1, 1]
    assert torch.get_num_threads() == before
    monkeypatch.undo()
    precision.cpu_slowdown.cache_clear()
    assert 0.01 < precision.cpu_slowdown() < 10_000  # as it is measured here
    precision.cpu_slowdown.cache_clear()


def test_a_product_is_timed_by_the_shortest_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100, 109, 110, 113, 120, 122, 130, 135])
    monkeypatch.setattr(precision.time, "perf_counter", lambda: next(clock))
    assert precision._best(torch.ones(2, 2)) == 2
    assert next(clock, None) is None
