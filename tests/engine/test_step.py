"""The local step against the same arithmetic written with autograd and torch.optim, for every hook of a correction."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import feddc
from feddc.engine.local.gradient import gradient_of
from feddc.engine.local.kernel import local_sgd
from feddc.models import FlatModel
from feddc.types import Correction

P = 6 * 8 + 8 + 8 * 3 + 3


def random(seed: int, size: float = 1.0) -> Tensor:
    return size * torch.randn(P, generator=torch.Generator().manual_seed(seed))


CORRECTIONS = {
    "none": Correction(),
    "scale": Correction(random(1), prox=0.2, decay=0.3, scale=0.4),
    "twice": Correction(random(1), prox=0.2, scale=2.0),
    "start": Correction(start=random(2, 0.1)),
    "ahead": Correction(random(1), prox=0.2, decay=0.3, ahead=random(3, 0.1)),
    "dual": Correction(random(1), dual=random(4, 0.1), consensus=random(5, 0.05)),
    "all": Correction(random(1), prox=0.2, decay=0.3, scale=0.4, start=random(2, 0.1), ahead=random(3, 0.1)),
}


def by_hand(
    module: nn.Module, batches: list[tuple[Tensor, Tensor]], how: Correction, training: feddc.LocalTraining
) -> tuple[Tensor, Tensor]:
    """θ and the dual in double precision, one operation after the other, in the documentation's order."""
    module = module.double()
    theta = nn.utils.parameters_to_vector(module.parameters()).detach()
    linear, start, ahead = (torch.zeros(P) if each is None else each for each in (how.linear, how.start, how.ahead))
    theta, velocity = theta + start, torch.zeros(P, dtype=torch.float64)
    dual, consensus = (torch.zeros(P) if each is None else each.double() for each in (how.dual, how.consensus))

    def gradient(at: Tensor, x: Tensor, y: Tensor) -> Tensor:
        nn.utils.vector_to_parameters(at, module.parameters())
        loss = nn.functional.cross_entropy(module(x.double()), y)
        return nn.utils.parameters_to_vector(torch.autograd.grad(loss, list(module.parameters()))).detach()

    for x, y in batches:
        at = theta + ahead
        if training.sam:
            uphill = gradient(at, x, y) - dual - consensus
            climb = training.sam * uphill / uphill.norm()
            at = at + climb
            dual = dual if how.dual is None else dual + climb - consensus
        g = how.scale * gradient(at, x, y) + linear + how.prox * theta
        if training.clip_norm is not None and g.norm() > training.clip_norm:
            g = g * training.clip_norm / g.norm()
        velocity = training.momentum * velocity + g + (training.weight_decay + how.decay) * theta
        theta = theta - training.lr * velocity
    return theta, dual


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "autograd"])
@pytest.mark.parametrize("name", CORRECTIONS)
@pytest.mark.parametrize("options", [{}, {"sam": 0.3}, {"momentum": 0.9}, {"momentum": 0.5, "sam": 0.1}], ids=str)
@pytest.mark.parametrize("clip", [None, 0.5])
def test_a_step_is_what_the_equations_say(
    name: str, options: dict[str, float], clip: float | None, dense: bool, model: nn.Module
) -> None:
    layers = list(model) if dense else [*model, nn.Identity()]  # type: ignore[call-overload]
    module = nn.Sequential(*layers)
    training = feddc.LocalTraining(lr=0.1, weight_decay=0.01, clip_norm=clip, **options)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(5)
    batches = [(torch.randn(7, 6, generator=generator), torch.arange(7) % 3) for _ in range(4)]
    flat = FlatModel(module)
    given = CORRECTIONS[name]
    dual = local_sgd(flat, batches, given, training, training.lr, gradient_of(flat, feddc.Classification()))
    wanted, moved = by_hand(module, batches, given, training)
    torch.testing.assert_close(flat.params, wanted.float(), rtol=1e-4, atol=1e-5)
    assert (dual is None) == (given.dual is None)
    if dual is not None:
        torch.testing.assert_close(dual, moved.float(), rtol=1e-4, atol=1e-5)
        assert dual is not given.dual  # what was given is not written to
        assert torch.equal(given.dual, random(4, 0.1))


def test_momentum_is_that_of_torch(model: nn.Module) -> None:
    training = feddc.LocalTraining(lr=0.1, weight_decay=0.1, clip_norm=None, momentum=0.9)
    batches = [(torch.randn(7, 6, generator=torch.Generator().manual_seed(i)), torch.arange(7) % 3) for i in range(4)]
    flat = FlatModel(model)
    local_sgd(flat, batches, Correction(), training, training.lr, gradient_of(flat, feddc.Classification()))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1, momentum=0.9)
    for x, y in batches:
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    torch.testing.assert_close(flat.params, nn.utils.parameters_to_vector(model.parameters()).detach())


def constant(model: FlatModel, norm: float) -> Callable[[Tensor, Tensor], None]:
    """A gradient of this norm wherever it is taken."""
    return lambda *_: model.grads.add_(norm / P**0.5)  # type: ignore[return-value]


@pytest.mark.parametrize("norm", [0.0, 1e-7, 1.0])
def test_a_climb_is_as_long_as_sam_unless_there_is_hardly_a_gradient(norm: float, model: nn.Module) -> None:
    flat, still = FlatModel(model), torch.zeros(P)
    training = feddc.LocalTraining(lr=0.1, weight_decay=0.0, clip_norm=None, sam=0.3)
    given = Correction(dual=still, consensus=still)
    climbed = local_sgd(flat, [(still, still)], given, training, 0.1, constant(flat, norm))
    assert climbed is not None
    assert float(climbed.norm()) == pytest.approx(0.3 * norm / (norm + 1e-7), rel=1e-3)


@pytest.mark.parametrize(("norm", "wanted"), [(0.0, 0.0), (1e-6, 5e-7), (2e-6, 2e-6 / 3), (1e-7, 1e-7 / 1.1)])
def test_a_gradient_is_clipped_as_torch_does_it(norm: float, wanted: float, model: nn.Module) -> None:
    flat = FlatModel(model)
    flat.params.zero_()
    training = feddc.LocalTraining(lr=1.0, weight_decay=0.0, clip_norm=1e-6)
    local_sgd(flat, [(flat.params, flat.params)], Correction(), training, 1.0, constant(flat, norm))
    assert float(flat.params.norm()) == pytest.approx(wanted, rel=1e-3)
    weight = nn.Parameter(torch.zeros(P))
    weight.grad = torch.full((P,), norm / P**0.5)
    nn.utils.clip_grad_norm_(weight, 1e-6)
    torch.testing.assert_close(-flat.params, weight.grad, rtol=1e-3, atol=0)


def test_weights_decay_where_they_are_and_not_where_gradients_are_taken(model: nn.Module) -> None:
    flat = FlatModel(model)
    before = flat.params.clone()
    training = feddc.LocalTraining(lr=0.1, weight_decay=0.5, clip_norm=None, optimizer="adamw")
    local_sgd(flat, [(before, before)], Correction(ahead=random(3)), training, 0.1, constant(flat, 0.0))
    torch.testing.assert_close(flat.params, (1 - 0.1 * 0.5) * before)


def test_reach_counts_how_often_a_gradient_moves_the_model() -> None:
    """A constant gradient g: Δ = −η · reach · g."""
    for momentum in (0.0, 0.5, 0.9):
        moved, velocity = 0.0, 0.0
        for _ in range(6):
            velocity = momentum * velocity + 1.0
            moved += velocity
        local = feddc.LocalResult(
            delta=torch.zeros(1, 1),
            steps=torch.tensor([[6.0]]),
            nominal=6,
            lr=1.0,
            rate=1.0,
            round=1,
            momentum=momentum,
        )
        assert float(local.reach) == pytest.approx(moved)


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: feddc.LocalTraining(sam=-1), "sam must be at least 0, not -1"),
    (lambda: feddc.LocalTraining(momentum=1.0), "momentum must be below 1, not 1.0"),
]


@pytest.mark.parametrize(("bad", "sentence"), BAD)
def test_bad_values_get_a_sentence(bad: Callable[[], object], sentence: str) -> None:
    with pytest.raises(feddc.ConfigError, match=sentence):
        bad()
