"""The zoo's shapes and sizes, and modules as flat vectors."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import feddc
from feddc.models import Buffers, FlatModel, make_model


def size(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("text", "shape", "classes", "parameters"),
    [
        ("linear", (30,), 5, 155),
        ("fcn", (1, 28, 28), 10, 784 * 200 + 200 + 200 * 200 + 200 + 2010),
        ("fcn:100", (64,), 10, 64 * 100 + 100 + 1010),
        ("fcn:8:4:2", (3,), 2, 32 + 36 + 10 + 6),
        ("cnn", (3, 32, 32), 10, 4864 + 102464 + 1600 * 384 + 384 + 384 * 192 + 192 + 1930),
        ("resnet18", (3, 64, 64), 200, 11_176_512 + 512 * 200 + 200),
        ("resnet18:norm=batch", (3, 64, 64), 1000, 11_689_512),  # torchvision's count
        ("resnet18", (3, 32, 32), 10, 11_173_962),
    ],
)
def test_zoo(text: str, shape: tuple[int, ...], classes: int, parameters: int) -> None:
    model = make_model(text, shape, classes)
    assert model.eval()(torch.zeros(2, *shape)).shape == (2, classes)
    assert size(model) == parameters


def test_the_seed_gives_the_weights_and_leaves_torch_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    one, two, three = (FlatModel(make_model("fcn:9", (4,), 3, seed)).params for seed in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, three)
    assert torch.equal(torch.rand(1), expected)


def test_linear_starts_from_zeros() -> None:
    assert not FlatModel(make_model("linear", (4,), 3)).params.any()


@pytest.mark.parametrize(
    ("text", "shape", "words"),
    [
        ("fnc", (4,), "did you mean 'fcn'"),
        ("fcn:0", (4,), "fcn width must be"),
        ("fcn:a", (4,), "whole number"),
        ("cnn", (64,), "needs images"),
        ("cnn", (1, 8, 8), "at least 16×16"),
        ("resnet18:norm=layer", (3, 32, 32), "one of group, batch"),
        ("linear:3", (4,), "zeros must be true or false, not '3'"),
    ],
)
def test_bad_models_are_refused_in_a_sentence(text: str, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(feddc.ConfigError, match=words):
        make_model(text, shape, 10)


def test_flat_model_is_a_view_of_the_module() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    flat = FlatModel(module)
    assert torch.equal(flat.params, nn.utils.parameters_to_vector(module.parameters()).detach())
    flat.params.fill_(0.25)
    assert all((p == 0.25).all() for p in flat.module.parameters())
    assert not all((p == 0.25).all() for p in module.parameters())  # the user's module is not touched
    flat.module(torch.randn(5, 3)).sum().backward()
    gradients = torch.cat([p.grad.reshape(-1) for p in flat.module.parameters() if p.grad is not None])
    assert torch.equal(flat.grads, gradients)
    assert flat.grads.any()


def test_buffers_round_trip() -> None:
    flat = FlatModel(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)))
    flat.load(flat.params, Buffers(torch.arange(8.0), torch.tensor([7])))
    assert flat.module[1].running_mean.tolist() == [0, 1, 2, 3]
    assert int(flat.module[1].num_batches_tracked) == 7
    assert torch.equal(flat.buffers().floats, torch.arange(8.0))


def test_frozen_parameters_are_not_part_of_the_vector() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    module[0].requires_grad_(False)
    assert FlatModel(module).params.numel() == 10
    with pytest.raises(feddc.ConfigError, match="no trainable parameters"):
        FlatModel(module.requires_grad_(False))
