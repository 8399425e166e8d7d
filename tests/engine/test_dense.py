"""The written-out gradient is autograd's, and only networks that it knows are given to it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import feddc
from feddc.engine.local.dense import DenseGradient, DenseRows, dense_layers
from feddc.engine.local.functional import FunctionalGradient
from feddc.engine.local.gradient import written_out
from feddc.models import FlatModel
from feddc.tasks import MultiLabel

DENSE = [
    nn.Linear(6, 3),
    nn.Sequential(nn.Flatten(), nn.Linear(6, 3, bias=False)),
    nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4, bias=False), nn.ReLU(), nn.Linear(4, 3)),
]
shared = nn.Linear(6, 6)
frozen = nn.Linear(6, 3)
frozen.bias.requires_grad_(False)
hooked = nn.Linear(6, 3)
hooked.register_forward_hook(lambda _, __, out: 2 * out)
OTHERS = [
    nn.Sequential(nn.Linear(6, 3), nn.ReLU()),
    nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 3)),
    nn.Sequential(nn.Linear(6, 3), nn.Tanh(), nn.Linear(3, 3)),
    nn.Sequential(nn.ReLU(), nn.Linear(6, 3)),
    nn.Sequential(shared, nn.ReLU(), shared),
    nn.Sequential(),
    frozen,
    hooked,
]


@pytest.mark.parametrize("module", DENSE)
@pytest.mark.parametrize("kind", [DenseRows, FunctionalGradient])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_gradient_is_that_of_autograd(module: nn.Module, kind: type, rows: int) -> None:
    layers = dense_layers(module)
    assert layers is not None
    x, y = torch.randn(rows, 4, 6), torch.randint(3, (rows, 4))
    lengths = torch.tensor([[4], [1], [3]])[:rows]
    share = (torch.arange(4) < lengths) / lengths
    model = FlatModel(module)
    params = torch.randn(rows, model.params.numel())
    grads = torch.ones_like(params)
    extra = () if kind is DenseRows else (feddc.Classification(),)
    kind(layers if kind is DenseRows else module, params, grads, *extra)(x, y, share)
    for k, length in enumerate(lengths.flatten().tolist()):
        model.load(params[k], model.buffers())
        model.grads.fill_(1.0)  # both add to what is there
        F.cross_entropy(model.module(x[k, :length]), y[k, :length]).backward()
        torch.testing.assert_close(grads[k], model.grads, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("module", DENSE)
def test_the_gradient_of_one_client_is_that_of_autograd(module: nn.Module) -> None:
    layers = dense_layers(module)
    assert layers is not None
    model = FlatModel(module)
    gradient = DenseGradient(layers, model.params, model.grads)
    for size in (4, 4, 1):  # the last batch of an epoch may be shorter
        x, y = torch.randn(size, 6), torch.randint(3, (size,))
        model.grads.fill_(1.0)
        gradient(x, y)
        found = model.grads.clone()
        model.grads.fill_(1.0)
        F.cross_entropy(model.module(x), y).backward()
        torch.testing.assert_close(found, model.grads, rtol=1e-4, atol=1e-5)


def test_the_first_batch_of_many_clients_may_be_one_sample_each() -> None:
    module = DENSE[0]
    layers = dense_layers(module)
    assert layers is not None
    params = torch.randn(3, FlatModel(module).params.numel())
    found, wanted = torch.zeros_like(params), torch.zeros_like(params)
    x, y = torch.randn(3, 1, 6), torch.randint(3, (3, 1))
    DenseRows(layers, params, found)(x, y, 1.0)
    FunctionalGradient(module, params, wanted, feddc.Classification())(x, y, 1.0)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("module", OTHERS, ids=str)
def test_other_networks_are_left_to_autograd(module: nn.Module) -> None:
    assert dense_layers(module) is None


def test_only_plain_cross_entropy_is_written_out() -> None:
    module = nn.Linear(6, 3)
    assert written_out(module, feddc.Classification()) == dense_layers(module)
    for task in (feddc.Classification(label_smoothing=0.1), feddc.Classification(weight=[1, 2, 1]), MultiLabel()):
        assert written_out(module, task) is None
