"""What every method of the registry must do; a new one is tested by being registered."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch

from feddc.algorithms import METHODS, display_name, make_method, method_name
from feddc.algorithms.base import Algorithm
from feddc.types import LocalResult
from tests.algorithms.play import cohort, local_result, means_of

P, K, N = 7, 3, 10
STEPS = torch.tensor([[2.0], [4.0], [6.0]])
VARIANTS = [
    *(name for name in METHODS if name != "fedexp"),
    "fedexp:eps=10",  # by default it steps so far, where clients disagree for good, that it circles the optimum
    "fednova:mu=0.1",
    "fedlesam:base=scaffold",
    "fedlesam:base=feddyn",
    "fedinit:form=paper",
    "feddc:form=paper",
    "feddc:steps=nominal",
    "scaffold:form=feddc",
    "scaffold:form=weighted",
    "feddc:penalty=false",
    "feddc:correction=false",
    "feddc:penalty=false:correction=false",
    "feddc:server=yogi:server_lr=0.01",
    "feddyn:alpha=0.1:server=adam",
    "scaffold:server=adagrad",
    "fedprox:server_lr=0.5:server_momentum=0.9",
]


@pytest.fixture(params=VARIANTS)
def method(request: pytest.FixtureRequest) -> Algorithm:
    return make_method(request.param)


def play(method: Algorithm, seed: int = 0) -> tuple[Any, Any, Any, Any, torch.Tensor]:
    """Server, broadcast, rows of client state, local result and weights after some rounds of made-up training."""
    rng = torch.Generator().manual_seed(seed)
    weight = torch.tensor([[0.5], [1.0], [1.5]])
    server = method.init_server(torch.randn(P, generator=rng))
    initial = method.init_client(server.model)
    client = type(initial)(*(field.expand(K, *field.shape).clone() for field in initial))
    for _ in range(3):
        sent = method.broadcast(server)
        local = local_result(0.1 * torch.randn(K, P, generator=rng), STEPS)
        upload, client = method.upload(sent, client, local, weight)
        server = method.aggregate(server, means_of(method, upload, local, weight), cohort(K / N))
    local = local_result(0.1 * torch.randn(K, P, generator=rng), STEPS)
    return server, method.broadcast(server), client, local, weight


def flatten(state: Any) -> list[torch.Tensor]:
    if isinstance(state, torch.Tensor):
        return [state]
    if isinstance(state, LocalResult):
        return [state.delta, state.steps]
    return [leaf for part in state for leaf in flatten(part)] if isinstance(state, tuple) else []


def test_is_a_frozen_dataclass_of_hyper_parameters(method: Algorithm) -> None:
    assert dataclasses.is_dataclass(method)
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.server = None  # type: ignore[attr-defined]
    assert method == copy.deepcopy(method)


def test_is_pure(method: Algorithm) -> None:
    server, sent, client, local, weight = play(method)
    before = copy.deepcopy((server, sent, client, local, weight))
    for _ in range(2):
        correction = method.correct(sent, client, weight)
        upload, new = method.upload(sent, client, local, weight)
        after = method.aggregate(server, means_of(method, upload, local, weight), cohort(K / N))
        results = flatten((tuple(correction), upload, new, after))
        again = flatten(
            (
                tuple(method.correct(sent, client, weight)),
                *method.upload(sent, client, local, weight),
                method.aggregate(server, means_of(method, upload, local, weight), cohort(K / N)),
            )
        )
        assert all(torch.equal(a, b) for a, b in zip(results, again, strict=True))
    unchanged = zip(flatten(before), flatten((server, sent, client, local, weight)), strict=True)
    assert all(torch.equal(a, b) for a, b in unchanged)


def test_rows_equal_one_client_at_a_time(method: Algorithm) -> None:
    _, sent, client, local, weight = play(method)
    correction = method.correct(sent, client, weight)
    upload, new = method.upload(sent, client, local, weight)
    for k in range(K):
        one = type(client)(*(field[k : k + 1] for field in client))
        alone = method.correct(sent, one, weight[k : k + 1])
        for whole, part in zip(correction, alone, strict=True):
            if isinstance(whole, torch.Tensor) and whole.ndim == 2:
                torch.testing.assert_close(whole[k : k + 1], part)
        result = local_result(local.delta[k : k + 1], local.steps[k : k + 1])
        result = dataclasses.replace(result, nominal=local.nominal)
        one_upload, one_new = method.upload(sent, one, result, weight[k : k + 1])
        for whole, part in zip(flatten((upload, new)), flatten((one_upload, one_new)), strict=True):
            torch.testing.assert_close(whole[k : k + 1], part)


def test_one_vector_travels_up(method: Algorithm) -> None:
    _, sent, client, local, weight = play(method)
    upload, _ = method.upload(sent, client, local, weight)
    assert upload.delta.shape == local.delta.shape
    if getattr(method, "sends_update", True):  # else the server needs what only the clients know
        assert upload._fields == ("delta",)


def test_server_state_does_not_grow_with_clients(method: Algorithm) -> None:
    server, sent, _, _, _ = play(method)
    assert server.model.shape == (P,)
    assert all(leaf.numel() <= P for leaf in flatten((server, sent)))


def test_does_not_move_when_clients_do_not(method: Algorithm) -> None:
    server = method.init_server(torch.ones(P))
    client = method.init_client(server.model)
    rows = type(client)(*(field.expand(K, *field.shape) for field in client))
    weight = torch.ones(K, 1)
    local = local_result(torch.zeros(K, P))
    upload, _ = method.upload(method.broadcast(server), rows, local, weight)
    after = method.aggregate(server, means_of(method, upload, local, weight), cohort())
    torch.testing.assert_close(after.model, server.model)


def test_solves_a_quadratic(method: Algorithm) -> None:
    """Clients pull to different points with different strength; every method must find a model near their optimum."""
    curvature, centre = torch.tensor([[1.0], [1.2], [0.8]]), torch.tensor([[2.0], [-1.0], [0.5]]).expand(K, P)
    optimum = (curvature * centre).sum(dim=0) / curvature.sum()
    lr, steps, weight = 0.1, 5, torch.ones(K, 1)
    server = method.init_server(torch.full((P,), 1.0))
    initial = method.init_client(server.model)
    client = type(initial)(*(field.expand(K, *field.shape).clone() for field in initial))
    slow = "Ada" in repr(method) or "Yogi" in repr(method)
    for round in range(1, 1501 if slow else 301):
        sent = method.broadcast(server)
        linear, prox, decay, scale, start, ahead, *_ = (
            0 if part is None else part for part in method.correct(sent, client, weight)
        )
        theta = sent.model + start + torch.zeros(K, P)
        for _ in range(steps):
            gradient = scale * curvature * (theta + ahead - centre) + linear + (prox + decay) * theta
            theta = theta - lr * gradient
        local = local_result(theta - sent.model, steps, lr, round)
        upload, client = method.upload(sent, client, local, weight)
        server = method.aggregate(server, means_of(method, upload, local, weight), cohort(steps=steps, round=round))
    assert (server.model - optimum).abs().max() < 0.15


def test_name_round_trips() -> None:
    for name in METHODS:
        assert method_name(make_method(name)) == name


def test_names_as_people_write_them() -> None:
    shown = [display_name(name) for name in ("fedavg", "scaffold", "feddc", "fedadam")]
    assert shown == ["FedAvg", "SCAFFOLD", "FedDC", "FedAdam"]
    assert [display_name(name).lower() for name in METHODS] == list(METHODS)
    assert display_name("mine/methods.py:Mine") == "Mine"
