"""Gradients of many clients at once against autograd, one client after another."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import feddc
from feddc.engine.local.functional import FunctionalGradient
from feddc.engine.local.losses import own_loss
from feddc.models import FlatModel
from feddc.tasks import MultiLabel


def test_several_targets_a_sample_and_equal_shares() -> None:
    torch.manual_seed(0)
    module = nn.Linear(6, 4)
    params = torch.randn(2, FlatModel(module).params.numel())
    x, y = torch.randn(2, 3, 6), torch.randint(0, 2, (2, 3, 4)).float()
    found, padded = torch.zeros_like(params), torch.zeros_like(params)
    FunctionalGradient(module, params, found, MultiLabel())(x, y, 1 / 3)
    FunctionalGradient(module, params, padded, MultiLabel())(x, y, torch.full((2, 3), 1 / 3))
    assert torch.equal(found, padded)
    for row in range(2):
        nn.utils.vector_to_parameters(params[row], module.parameters())
        loss = MultiLabel().losses(module(x[row]), y[row]).mean()
        wanted = torch.cat([each.flatten() for each in torch.autograd.grad(loss, list(module.parameters()))])
        torch.testing.assert_close(found[row], wanted)


@pytest.mark.parametrize(
    ("method", "received", "features"),
    [
        (feddc.FedLC(), False, False),
        (feddc.FedNTD(), True, False),
        (feddc.FedDecorr(), False, True),
        (feddc.MOON(), True, True),
    ],
)
def test_a_local_loss_is_given_only_what_it_looks_at(method: object, received: bool, features: bool) -> None:
    found = own_loss(method)
    assert found is not None
    assert (found.received, found.features) == (received, features)
    assert own_loss(feddc.FedAvg()) is None
