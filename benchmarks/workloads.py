"""The workloads: data, model and training of one round each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from torch import nn

import feddc
from feddc.data.augment import flip_and_crop


@dataclass(frozen=True)
class Workload:
    title: str
    federation: feddc.Federation
    model: nn.Module
    training: feddc.LocalTraining
    cohort: int
    executors: tuple[str, ...]
    half: bool = False
    """Also measured with products in bfloat16, where the processor has them."""


def synthetic(smoke: bool) -> Workload:
    """Logistic regression, 20 clients × 200 steps of batch 10."""
    clients, epochs = (3, 1) if smoke else (20, 10)
    federation = feddc.load("synthetic", clients=clients)
    training = feddc.LocalTraining(epochs=epochs, batch_size=10)
    return _workload(synthetic, federation, "linear", training, clients, ("in-process", "vectorised"))


def fcn(smoke: bool) -> Workload:
    """784-200-200-10 network, 15 of 100 clients a round, 600 samples each, batch 50, 5 epochs, 10 000 test samples."""
    clients, samples, cohort = (4, 100, 2) if smoke else (100, 600, 15)
    federation = images((784,), clients, samples, tests=200 if smoke else 10_000)
    return _workload(fcn, federation, "fcn", feddc.LocalTraining(), cohort, ("in-process", "workers"), half=True)


def cnn(smoke: bool) -> Workload:
    """The CIFAR CNN with augmentation, 4 clients × 50 steps of batch 50."""
    clients, samples = (2, 50) if smoke else (4, 500)
    federation = replace(images((3, 32, 32), clients, samples, tests=100), augment=flip_and_crop)
    training = feddc.LocalTraining(epochs=1 if smoke else 5)
    return _workload(cnn, federation, "cnn", training, clients, ("in-process", "workers"), half=True)


def resnet32(smoke: bool) -> Workload:
    """ResNet18 with GroupNorm, 32 pixels, 2 clients × 4 steps of batch 16."""
    return _resnet(resnet32, 32, smoke)


def resnet64(smoke: bool) -> Workload:
    """ResNet18 with GroupNorm, 64 pixels, 2 clients × 4 steps of batch 16."""
    return _resnet(resnet64, 64, smoke)


def pfl(smoke: bool) -> Workload:
    """pfl-research's CIFAR-10 benchmark: 50 of 1000 clients a round, 50 images each, batch 10, 1 epoch, a small CNN."""
    clients, samples, cohort = (4, 20, 2) if smoke else (1000, 50, 50)
    federation = images((3, 32, 32), clients, samples, tests=100)
    training = feddc.LocalTraining(epochs=1, batch_size=10)
    layers = [nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    head = [nn.Linear(12544, 128), nn.ReLU(), nn.Linear(128, 10)]
    model = nn.Sequential(*layers, *head)
    return Workload((pfl.__doc__ or "").rstrip("."), federation, model, training, cohort, ("workers",), half=True)


def flute(smoke: bool) -> Workload:
    """FLUTE's LR-MNIST: logistic regression, 10 of 1000 clients a round, 60 samples each, batch 10, lr 0.03."""
    clients, cohort = (20, 3) if smoke else (1000, 10)
    federation = images((784,), clients, 60, tests=200 if smoke else 10_000)
    training = feddc.LocalTraining(epochs=1, batch_size=10, lr=0.03)
    return _workload(flute, federation, "linear", training, cohort, ("in-process", "vectorised"))


WORKLOADS = {each.__name__: each for each in (synthetic, fcn, cnn, resnet32, resnet64, pfl, flute)}


def _resnet(what: object, pixels: int, smoke: bool) -> Workload:
    samples = 4 if smoke else 64
    pixels = 8 if smoke else pixels
    federation = images((3, pixels, pixels), 2, samples, tests=20)
    training = feddc.LocalTraining(epochs=1, batch_size=2 if smoke else 16)
    return _workload(what, federation, "resnet18", training, 2, ("in-process", "workers"), half=True)


def _workload(
    what: object,
    federation: feddc.Federation,
    model: str,
    training: feddc.LocalTraining,
    cohort: int,
    executors: tuple[str, ...],
    half: bool = False,
) -> Workload:
    module = feddc.make_model(model, federation.shape, federation.classes)
    return Workload((what.__doc__ or "").rstrip("."), federation, module, training, cohort, executors, half)


def images(shape: tuple[int, ...], clients: int, samples: int, tests: int) -> feddc.Federation:
    """Random samples and labels: speed does not depend on what they show."""
    rng = np.random.default_rng(0)
    count = clients * samples + tests
    x = rng.standard_normal((count, *shape), dtype=np.float32)
    y = rng.permutation(count) % 10
    test = (x[-tests:], y[-tests:])
    return feddc.Federation.from_arrays(x[:-tests], y[:-tests], sizes=[samples] * clients, test=test)
