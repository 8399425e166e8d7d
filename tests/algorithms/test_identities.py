"""Equations between methods, and between a method and plain SGD."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

import feddc
from feddc.algorithms import make_method
from feddc.algorithms.base import evaluated
from feddc.algorithms.server import ExP
from feddc.types import LossBatch, Seen
from tests.algorithms.play import cohort, local_result, means_of
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


ONE_STEP = feddc.LocalTraining(epochs=1, batch_size=None, lr=0.1, lr_decay=1.0, weight_decay=0.0, clip_norm=None)


@pytest.mark.parametrize("algorithm", [feddc.FedDC(penalty=False), feddc.Scaffold()], ids=repr)
def test_after_a_full_batch_step_from_any_state_the_variate_is_the_gradient(
    algorithm: object, model: nn.Module
) -> None:
    """Whatever ω_i: with its own number of steps a client's variate is its mean gradient, and g or c their mean."""
    federation = make_federation([4, 12, 40])
    simulation = feddc.Simulation(algorithm, model, federation, rounds=4, participation=0.7, training=FAST)  # type: ignore[arg-type]
    list(simulation.run())
    weight = simulation.weights if isinstance(algorithm, feddc.FedDC) else torch.ones(3, 1)
    again = feddc.Simulation(algorithm, simulation.module(), federation, rounds=1, training=ONE_STEP)  # type: ignore[arg-type]
    again.restore(0, simulation.state())
    again.store.restore([0, 1, 2], simulation.store.gather([0, 1, 2])._asdict())
    start = simulation.module()
    again.step()
    variates = again.store.gather([0, 1, 2]).variate
    for i in range(3):
        x, y = federation.client_samples(i)
        gradient = torch.autograd.grad(nn.functional.cross_entropy(start(x), y), list(start.parameters()))
        torch.testing.assert_close(variates[i], torch.cat([g.reshape(-1) for g in gradient]), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(again.server.variate, (weight * variates).mean(dim=0), rtol=1e-4, atol=1e-5)


def test_with_the_nominal_number_of_steps_a_large_clients_variate_grows_without_bound(model: nn.Module) -> None:
    """r = K_i/K = 2.6: |1 − r| = 1.6 a round. With the client's own steps the same federation is stable."""
    federation = make_federation([4, 4, 4, 4, 40])
    training = feddc.LocalTraining(epochs=1, batch_size=1, lr=0.001, lr_decay=1.0, weight_decay=0.0, clip_norm=None)

    def norms(algorithm: feddc.FedDC) -> list[float]:
        simulation = feddc.Simulation(algorithm, model, federation, rounds=20, training=training)
        return [float(simulation.store.gather([4]).variate.norm()) for _ in simulation.run()]

    nominal, own = (norms(feddc.FedDC(alpha=0.1, steps=steps)) for steps in ("nominal", "own"))  # type: ignore[arg-type]
    assert nominal[-1] > 100 * nominal[0]
    assert max(own) < 2 * own[0]


def test_forms_of_scaffold_and_feddc_are_the_same_for_clients_of_equal_size(model: nn.Module) -> None:
    federation = make_federation([16, 16, 16, 16])
    for form in ("feddc", "weighted"):
        torch.testing.assert_close(
            final(feddc.Scaffold(), federation, model),
            final(feddc.Scaffold(form=form), federation, model),  # type: ignore[arg-type]
        )
    torch.testing.assert_close(
        final(feddc.FedDC(), federation, model), final(feddc.FedDC(steps="nominal"), federation, model)
    )


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
    w, weight = torch.zeros(2), torch.tensor([[0.5], [1.1]])  # others, who are not here, have more
    server = method.init_server(w)
    client = type(method.init_client(w))(torch.zeros(2, 2), torch.zeros(2, 2))
    delta = torch.tensor([[1.0, 2.0], [3.0, -1.0]])
    local = local_result(delta, steps=2, lr=0.5)
    upload, client = method.upload(method.broadcast(server), client, local, weight)
    server = method.aggregate(server, means_of(method, upload, local, weight), cohort(size=2))
    torch.testing.assert_close(server.model, (0.5 * 2 * delta[0] + 1.1 * 2 * delta[1]) / 1.6)
    linear, prox, *_ = method.correct(method.broadcast(server), client, weight)
    expected = (delta - delta.mean(dim=0)) / (0.5 * 2) - 0.3 * (server.model - delta)
    torch.testing.assert_close(linear, expected)
    torch.testing.assert_close(torch.as_tensor(prox), torch.full((2, 1), 0.3))


EQUALS: list[tuple[object, object]] = [
    (feddc.FedCM(alpha=1), feddc.FedAvg(weighted=False)),
    (feddc.FedACG(momentum=0, mu=0), feddc.FedAvg(weighted=False)),
    (feddc.AdaBest(mu=0, beta=0), feddc.FedAvg(weighted=False)),
    (feddc.FedInit(beta=0), feddc.FedAvg(weighted=False)),
    (feddc.FedLESAM(rho=0), feddc.FedAvg(weighted=False)),
    (feddc.FedLESAM(rho=0, base="scaffold"), feddc.Scaffold(lr="current")),
    (feddc.FedLESAM(rho=0, base="feddyn", alpha=0.2), feddc.FedDyn(alpha=0.2, weighted=False)),
    (feddc.FedNTD(beta=0), feddc.FedAvg()),
    (feddc.FedNTD(beta=0, convex=True), feddc.FedAvg()),
    (feddc.MOON(mu=0), feddc.FedAvg()),
    (feddc.FedDecorr(beta=0), feddc.FedAvg()),
    (feddc.FedSMOO(rho=0, alpha=0.2), feddc.FedDyn(alpha=0.2, weighted=False)),
    (feddc.FedSAM(rho=0), feddc.FedAvg(weighted=False)),
    (feddc.MoFedSAM(rho=0, alpha=0.3), feddc.FedCM(alpha=0.3)),
    (feddc.FedSpeed(rho=0, alpha=0.2), feddc.FedDyn(alpha=0.2, weighted=False)),
    (feddc.FedGamma(rho=0), feddc.Scaffold(lr="current")),
    (feddc.FedExP(eps=1e9), feddc.FedAvg()),  # whatever the clients disagree about, the step is 1
]


@pytest.mark.parametrize(("left", "right"), EQUALS, ids=lambda each: type(each).__name__)
def test_a_method_without_its_term_is_its_base(
    left: object, right: object, federation: feddc.Federation, model: nn.Module
) -> None:
    found, wanted = (nn_final(each, federation, model) for each in (left, right))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def nn_final(algorithm: object, federation: feddc.Federation, model: nn.Module) -> torch.Tensor:
    simulation = feddc.Simulation(algorithm, model, federation, rounds=5, participation=0.6, training=FAST)  # type: ignore[arg-type]
    list(simulation.run())
    found: torch.Tensor = simulation.server.model
    return found


def test_a_method_that_asks_for_sharpness_aware_steps_is_its_base_with_them(
    federation: feddc.Federation, model: nn.Module
) -> None:
    sharp = dataclasses.replace(FAST, sam=0.2)
    for combined, base in [
        (feddc.FedSAM(rho=0.2), feddc.FedAvg(weighted=False)),
        (feddc.FedSpeed(rho=0.2, alpha=0.1), feddc.FedDyn(alpha=0.1, weighted=False)),
    ]:
        assert torch.equal(final(combined, federation, model), final(base, federation, model, training=sharp))


def test_fednova_with_equal_steps_is_fedavg(model: nn.Module) -> None:
    federation = make_federation([20, 17, 24, 20])  # batches of 8: three steps a pass on every client
    torch.testing.assert_close(final(feddc.FedNova(), federation, model), final(feddc.FedAvg(), federation, model))


def test_fednova_does_not_depend_on_how_often_a_client_repeats_its_step() -> None:
    """Two clients, the same direction, one of them three times as far: both count by their samples."""
    method, w = feddc.FedNova(), torch.zeros(2)
    local = local_result(torch.tensor([[1.0, 0.0], [0.0, 3.0]]), torch.tensor([[1.0], [3.0]]))
    upload, _ = method.upload(method.broadcast(method.init_server(w)), method.init_client(w), local, torch.ones(2, 1))
    after = method.aggregate(method.init_server(w), means_of(method, upload, local, torch.ones(2, 1)), cohort(size=2))
    torch.testing.assert_close(after.model, torch.tensor([1.0, 1.0]))


def test_fedexp_is_fedavg_where_all_updates_agree_and_steps_further_where_they_do_not() -> None:
    for delta, step in [([[1.0, 1.0], [1.0, 1.0]], [1.0, 1.0]), ([[3.0, 0.0], [0.0, 3.0]], [1.5, 1.5])]:
        method, w = feddc.FedExP(eps=1e-9), torch.zeros(2)
        local, weight = local_result(torch.tensor(delta)), torch.ones(2, 1)
        server = method.init_server(w)
        upload, _ = method.upload(method.broadcast(server), method.init_client(w), local, weight)
        after = method.aggregate(server, means_of(method, upload, local, weight), cohort(size=2, round=2))
        torch.testing.assert_close(after.model, torch.tensor(step))
        torch.testing.assert_close(evaluated(method, after), torch.tensor(step) / 2)  # the mean of the last two


def test_fedexp_sees_the_disagreement_of_clients_whatever_the_method_adds() -> None:
    """FedDC proposes mean Δ + h: the clients' own proposals are Δ_i + h, and their mean square is what counts."""
    method = feddc.FedDC(server=ExP(eps=1e-9))
    server = method.init_server(torch.zeros(2))._replace(drift=torch.tensor([0.5, 0.0]))
    delta, weight = torch.tensor([[3.0, 0.0], [-1.0, 1.0]]), torch.ones(2, 1)
    rows = type(method.init_client(server.model))(torch.zeros(2, 2), torch.zeros(2, 2))
    local = local_result(delta)
    upload, _ = method.upload(method.broadcast(server), rows, local, weight)
    after = method.aggregate(server, means_of(method, upload, local, weight), cohort(size=2))
    drift = server.drift + delta.mean(dim=0)
    update = delta.mean(dim=0) + drift
    factor = ((delta + drift) ** 2).sum(dim=1).mean() / (2 * update.dot(update))
    torch.testing.assert_close(after.model, max(1.0, float(factor)) * update)


def test_fedlc_leaves_out_the_classes_that_a_client_does_not_have() -> None:
    output = torch.zeros(2, 3, requires_grad=True)
    method = feddc.FedLC(tau=0.5)
    loss = method.local_loss(loss_batch(output, [0, 1], counts=torch.tensor([16, 1, 0])))
    shifted = torch.tensor([-0.25, -0.5])
    torch.testing.assert_close(loss, torch.logsumexp(shifted, 0) - shifted)
    loss.sum().backward()
    assert output.grad is not None
    assert not output.grad[:, 2].any()


def test_fedntd_ignores_the_true_class_and_rests_where_the_others_agree() -> None:
    output = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    reference = torch.tensor([[9.0, 2.5, 3.5]])  # the same but for the true class and a constant
    method = feddc.FedNTD(beta=2.0, tau=1.5)
    same = method.local_loss(loss_batch(output, [0], received=Seen(reference)))
    torch.testing.assert_close(same, torch_losses(output, torch.tensor([0])))
    other = method.local_loss(loss_batch(output, [0], received=Seen(torch.tensor([[0.0, 0.0, 3.0]]))))
    p, q = (torch.softmax(each / 1.5, 0) for each in (torch.tensor([0.0, 3.0]), torch.tensor([2.0, 3.0])))
    expected = 2.0 * 1.5**2 * (p * (p / q).log()).sum()
    torch.testing.assert_close(other - same, expected.unsqueeze(0))


def test_moon_draws_features_to_the_received_model_and_away_from_the_last_one() -> None:
    features = torch.tensor([[1.0, 1.0]], requires_grad=True)
    received, previous = Seen(None, torch.tensor([[2.0, 0.0]])), Seen(None, torch.tensor([[0.0, 3.0]]))
    method, output = feddc.MOON(mu=2.0, tau=0.5), torch.zeros(1, 3)
    loss = method.local_loss(loss_batch(output, [0], features, received=received, previous=previous))
    torch.testing.assert_close(loss, torch.tensor([3.0, 2.0]).log().matmul(torch.tensor([[1.0], [2.0]])))
    loss.sum().backward()
    assert features.grad is not None
    assert features.grad[0, 0] < 0 < features.grad[0, 1]


def test_moon_is_fedavg_where_there_are_no_hidden_features(federation: feddc.Federation) -> None:
    model = nn.Linear(6, 3)
    torch.testing.assert_close(final(feddc.MOON(), federation, model), final(feddc.FedAvg(), federation, model))


def test_feddecorr_minds_features_that_vary_together_and_only_those() -> None:
    together, apart = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]]), torch.ones(4, 2)
    apart[1:3, 0], apart[2:, 1] = -1, -1
    plain = torch_losses(torch.zeros(4, 3), torch.zeros(4, dtype=torch.long))
    values = [
        feddc.FedDecorr(beta=1.0).local_loss(loss_batch(torch.zeros(4, 3), [0] * 4, f)) for f in (together, apart)
    ]
    torch.testing.assert_close(values[0] - plain, torch.full((4,), (4 - 1) ** 2 / 4))  # (B−1)²/B · correlation²
    torch.testing.assert_close(values[1], plain)
    two = feddc.FedDecorr(beta=1.0).local_loss(loss_batch(torch.zeros(2, 3), [0] * 2, together[:2]))
    torch.testing.assert_close(two - plain[:2], torch.full((2,), 0.5))
    one = feddc.FedDecorr(beta=1.0).local_loss(loss_batch(torch.zeros(1, 3), [0], together[:1]))
    torch.testing.assert_close(one, plain[:1])


def test_feddecorr_does_not_count_samples_that_fill_up_a_batch() -> None:
    features = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    short = feddc.FedDecorr().local_loss(loss_batch(torch.zeros(4, 2), [0] * 4, features[:4]))
    real = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0])
    filled = feddc.FedDecorr().local_loss(loss_batch(torch.zeros(5, 2), [0] * 5, features, real=real))
    torch.testing.assert_close(filled[:4], short)


def test_fedsmoo_s_dual_is_where_its_step_climbed(model: nn.Module) -> None:
    """One step from the start: μ_i = ρ ∇L/‖∇L‖, and s, their direction, has the same length."""
    training = dataclasses.replace(FULL_BATCH, epochs=1)
    simulation = feddc.Simulation(
        feddc.FedSMOO(rho=0.3), model, make_federation([20, 30]), rounds=1, participation=1, training=training
    )
    list(simulation.run())
    dual, server = simulation.store.gather([0, 1]).dual, simulation.server
    torch.testing.assert_close(torch.linalg.vector_norm(dual, dim=1), torch.tensor([0.3, 0.3]))
    mean = dual.mean(dim=0)
    torch.testing.assert_close(server.consensus, 0.3 * mean / torch.linalg.vector_norm(mean))


@pytest.mark.parametrize("moved", [0.0, 1e-7, 1.0])
def test_a_direction_of_hardly_any_length_is_followed_less_far(moved: float) -> None:
    way, weight = torch.tensor([[0.6, 0.0, 0.8]]) * moved, torch.ones(1, 1)
    wanted = pytest.approx(0.3 * moved / (moved + 1e-7), rel=1e-3)
    lesam = feddc.FedLESAM(rho=0.3)
    sent = lesam.broadcast(lesam.init_server(torch.zeros(3)))
    ahead = lesam.correct(sent, type(lesam.init_client(sent.model))(way), weight).ahead
    assert ahead is not None
    assert float(torch.linalg.vector_norm(ahead)) == wanted
    smoo = feddc.FedSMOO(rho=0.3)
    server = smoo.init_server(torch.zeros(3))
    still, local = torch.zeros(1, 3), dataclasses.replace(local_result(torch.zeros(1, 3)), dual=way)
    upload, _ = smoo.upload(smoo.broadcast(server), type(smoo.init_client(server.model))(still, still), local, weight)
    after = smoo.aggregate(server, means_of(smoo, upload, local, weight), cohort(size=1))
    assert float(torch.linalg.vector_norm(after.consensus)) == wanted


def loss_batch(output: torch.Tensor, target: list[int], features: Any = None, **others: Any) -> LossBatch:
    others = {"counts": torch.ones(output.shape[1]), "real": torch.ones(len(output))} | others
    return LossBatch(losses=torch_losses, target=torch.tensor(target), own=Seen(output, features), **others)


def torch_losses(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(output, target, reduction="none")


@pytest.mark.parametrize(("form", "steps", "fixed"), [("feddc", [3, 3, 3], 3), ("original", [1, 2, 6], None)])
def test_scaffold_as_the_feddc_paper_ran_it_gives_every_client_the_same_number_of_steps(
    form: Any, steps: list[int], fixed: int | None
) -> None:
    training = feddc.LocalTraining(epochs=1, batch_size=4)
    method = feddc.Scaffold(form=form)
    simulation = feddc.Simulation(method, nn.Linear(6, 3), make_federation([4, 8, 24]), rounds=1, training=training)
    assert simulation.steps.flatten().tolist() == steps
    assert simulation.job.fixed_steps == fixed


@pytest.mark.parametrize("text", ["feddyn", "fedspeed:rho=0", "fedsmoo:rho=0", "fedlesam:base=feddyn:rho=0", "feddc"])
def test_which_pull_is_clipped(text: str) -> None:
    """FedDyn's αθ is added after the clip, as weight decay is; FedDC's is part of what is clipped.

    In the first round, with everybody, both move by twice the clients' mean update.
    """
    federation = make_federation([12])
    torch.manual_seed(1)
    model = nn.Linear(6, 3)
    training = feddc.LocalTraining(epochs=1, batch_size=None, lr=0.1, lr_decay=1.0, weight_decay=0.0, clip_norm=0.1)
    assert federation.test is not None
    x, y = federation.test
    loss = nn.functional.cross_entropy(model(x), y)
    gradient = nn.utils.parameters_to_vector(torch.autograd.grad(loss, list(model.parameters()))).detach()
    theta = nn.utils.parameters_to_vector(model.parameters()).detach()
    found = feddc.train(make_method(f"{text}:alpha=0.5"), model, federation, rounds=1, training=training).model
    moved = nn.utils.parameters_to_vector(found.parameters()).detach() - theta
    inside = gradient if text == "feddc" else gradient - 0.5 * theta
    outside = 0.0 * theta if text == "feddc" else 0.5 * theta
    assert float(inside.norm()) > 0.1
    torch.testing.assert_close(moved, -0.2 * (0.1 * inside / inside.norm() + outside), rtol=1e-4, atol=1e-6)
