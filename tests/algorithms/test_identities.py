"""Equations between methods, and between a method and plain SGD."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import feddc
from tests.conftest import FAST, make_federation

FULL_BATCH = feddc.LocalTraining(epochs=3, batch_size=None, lr=0.1, lr_decay=1.0, weight_decay=0.0, clip_norm=None)


def final(algorithm: object, federation: feddc.Federation, model: nn.Module, **options: object) -> torch.Tensor:
    options = {"rounds": 6, "participation": 0.5, "training": FAST, "seed": 3} | options
    result = feddc.train(algorithm, model, federation, **options)  # type: ignore[arg-type]
    return nn.utils.parameters_to_vector(result.model.parameters()).detach()


def test_fedprox_without_pull_is_fedavg(federation: feddc.Federation, model: nn.Module) -> None:
    assert torch.equal(final(feddc.FedProx(mu=0), federation, model), final(feddc.FedAvg(), federation, model))


def test_feddc_without_correction_is_feddyn_without_clipping(federation: feddc.Federation, model: nn.Module) -> None:
    training = feddc.LocalTraining(epochs=2, batch_size=8, lr=0.05, clip_norm=None)
    left = final(feddc.FedDC(alpha=0.2, correction=False), federation, model, training=training)
    right = final(feddc.FedDyn(alpha=0.2), federation, model, training=training)
    torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)


def test_feddc_with_everything_off_is_feddyn_with_alpha_zero(federation: feddc.Federation, model: nn.Module) -> None:
    left = final(feddc.FedDC(penalty=False, correction=False), federation, model)
    torch.testing.assert_close(left, final(feddc.FedDyn(alpha=0.0), federation, model), rtol=1e-5, atol=1e-6)


def test_fedadam_is_fedavg_with_a_server_optimiser() -> None:
    assert feddc.FedAdam(lr=0.1) == feddc.FedAvg(server=feddc.Adam(lr=0.1))
    assert feddc.FedYogi(lr=0.1) == feddc.FedAvg(server=feddc.Yogi(lr=0.1))
    assert feddc.FedAdagrad(lr=0.1) == feddc.FedAvg(server=feddc.Adagrad(lr=0.1))


@pytest.mark.parametrize("algorithm", [feddc.FedDC(alpha=0.1), feddc.Scaffold()], ids=repr)
def test_after_one_full_batch_step_the_variate_is_the_gradient(algorithm: object, model: nn.Module) -> None:
    federation = make_federation([12, 12, 12])
    one_step = feddc.LocalTraining(epochs=1, batch_size=None, lr=0.1, lr_decay=1.0, weight_decay=0.0, clip_norm=None)
    simulation = feddc.Simulation(algorithm, model, federation, rounds=1, training=one_step)  # type: ignore[arg-type]
    start = simulation.server.model.clone()
    prox = getattr(algorithm, "alpha", 0.0)
    simulation.step()
    variates = simulation.store.gather([0, 1, 2]).variate
    for i in range(3):
        x, y = federation.client_samples(i)
        gradient = torch.autograd.grad(nn.functional.cross_entropy(model(x), y), list(model.parameters()))
        flat = torch.cat([g.reshape(-1) for g in gradient]) + prox * (start - start)  # θ = w and h = 0: no pull yet
        torch.testing.assert_close(variates[i], flat, rtol=1e-4, atol=1e-5)


def test_one_client_fedavg_is_plain_sgd(model: nn.Module) -> None:
    federation = make_federation([24])
    found = final(feddc.FedAvg(), federation, model, rounds=2, participation=1.0, training=FULL_BATCH)
    x, y = federation.client_samples(0)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    torch.testing.assert_close(found, nn.utils.parameters_to_vector(model.parameters()).detach())


def test_clip_and_decay_are_those_of_torch(model: nn.Module) -> None:
    federation = make_federation([24])
    training = feddc.LocalTraining(epochs=3, batch_size=None, lr=0.1, lr_decay=1.0, weight_decay=0.1, clip_norm=0.5)
    found = final(feddc.FedAvg(), federation, model, rounds=1, participation=1.0, training=training)
    x, y = federation.client_samples(0)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimiser.step()
    torch.testing.assert_close(found, nn.utils.parameters_to_vector(model.parameters()).detach())


def test_drift_of_the_paper_form_is_that_of_the_code_form_when_all_take_part(model: nn.Module) -> None:
    """Equal clients, everyone present, no variate: then the mean of h_i over the cohort is the mean over all."""
    federation = make_federation([16, 16, 16])
    options = {"rounds": 5, "participation": 1.0, "training": FULL_BATCH}
    left = final(feddc.FedDC(alpha=0.1, form="paper", correction=False), federation, model, **options)
    right = final(feddc.FedDC(alpha=0.1, correction=False), federation, model, **options)
    torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)


def test_paper_form_in_two_rounds_by_hand() -> None:
    """Unequal clients, literally: g_i = −Δ_i/(Kη), g its plain cohort mean, w the weighted mean of θ_i + h_i."""
    method = feddc.FedDC(alpha=0.3, form="paper")
    w, weight = torch.zeros(2), torch.tensor([[0.5], [1.5]])
    server = method.init_server(w)
    client = type(method.init_client(w))(torch.zeros(2, 2), torch.zeros(2, 2))
    delta = torch.tensor([[1.0, 2.0], [3.0, -1.0]])
    local = feddc.LocalResult(delta, steps=2, lr=0.5)
    upload, client = method.upload(method.broadcast(server), client, local, weight)
    mean = type(upload)(upload.delta.mean(dim=0), upload.variate.mean(dim=0))
    server = method.aggregate(server, mean, feddc.Cohort(1.0, 1.0))
    torch.testing.assert_close(server.model, (0.5 * 2 * delta[0] + 1.5 * 2 * delta[1]) / 2)
    linear, prox, _ = method.correct(method.broadcast(server), client, weight)
    expected = (delta - delta.mean(dim=0)) / (0.5 * 2) - 0.3 * (server.model - delta)
    torch.testing.assert_close(linear, expected)
    torch.testing.assert_close(torch.as_tensor(prox), torch.full((2, 1), 0.3))
