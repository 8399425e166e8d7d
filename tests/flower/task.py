"""A small federation whose clients can be loaded one by one, as an app's ``task.py`` would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

import feddc
from tests.conftest import FAST, make_federation

SIZES = [20, 13, 30, 9, 17]
TRAINING = FAST


def federation() -> feddc.Federation:
    return make_federation(SIZES)


def load_client(node: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    return federation().client_samples(int(node["partition-id"]))


def load_test() -> tuple[torch.Tensor, torch.Tensor]:
    test = federation().test
    assert test is not None
    return test


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def make_model_with_buffers() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 3))
