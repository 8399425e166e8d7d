"""Small federations and models that many tests share."""

from __future__ import annotations

import signal

import numpy as np
import pytest
import torch
from torch import nn

import feddc

FAST = feddc.LocalTraining(epochs=2, batch_size=8, lr=0.05, lr_decay=0.9, weight_decay=1e-3, clip_norm=10.0)


def pytest_configure() -> None:
    """Ctrl-C is sent by tests, and is ignored in what a shell starts in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def make_federation(sizes: list[int], features: int = 6, classes: int = 3, seed: int = 0) -> feddc.Federation:
    """Gaussian blobs, each client with its own shift."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, features)) * 2
    y = rng.integers(classes, size=sum(sizes))
    y[:classes] = np.arange(classes)
    shift = np.repeat(rng.normal(size=(len(sizes), features)), sizes, axis=0)
    x = (centres[y] + shift + rng.normal(size=(len(y), features))).astype(np.float32)
    return feddc.Federation.from_arrays(x, y, sizes=sizes, test=(x, y), classes=classes)


@pytest.fixture
def federation() -> feddc.Federation:
    return make_federation([20, 13, 30, 9, 17])


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
