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


def synthetic(smoke: bool) -> Workload:
    """Logistic regression, 20 clients × 200 steps of batch 10."""
    clients, epochs = (3, 1) if smoke else (20, 10)
    federation = feddc.load("synthetic", clients=clients)
    training = feddc.LocalTraining(epochs=epochs, batch_size=10)
    return _workload(synthetic, federation, "linear", training, clients, ("in-process", "vectorised"))


def fcn(smoke: bool) -> Workload:
    """784-200-200-10 network, 15 of 100 clients a round, 600 samples each, batch 50, 5 epochs, 10 000 test samples."""
    clients, samples, cohort = (4, 100, 2) if smoke else (100, 600, 15)
    federation = _images((784,), clients, samples, tests=200 if smoke else 10_000)
    return _workload(fcn, federation, "fcn", feddc.LocalTraining(), cohort, ("in-process", "workers"))


def cnn(smoke: bool) -> Workload:
    """The CIFAR CNN with augmentation, 4 clients × 50 steps of batch 50."""
    clients, samples = (2, 50) if smoke else (4, 500)
    federation = replace(_images((3, 32, 32), clients, samples, tests=100), augment=flip_and_crop)
    training = feddc.LocalTraining(epochs=1 if smoke else 5)
    return _workload(cnn, federation, "cnn", training, clients, ("in-process", "workers"))


WORKLOADS = {"synthetic": synthetic, "fcn": fcn, "cnn": cnn}


def _workload(
    what: object,
    federation: feddc.Federation,
    model: str,
    training: feddc.LocalTraining,
    cohort: int,
    executors: tuple[str, ...],
) -> Workload:
    module = feddc.make_model(model, federation.shape, federation.classes)
    return Workload((what.__doc__ or "").rstrip("."), federation, module, training, cohort, executors)


def _images(shape: tuple[int, ...], clients: int, samples: int, tests: int) -> feddc.Federation:
    """Random samples and labels: speed does not depend on what they show."""
    rng = np.random.default_rng(0)
    count = clients * samples + tests
    x = rng.standard_normal((count, *shape), dtype=np.float32)
    y = rng.permutation(count) % 10
    test = (x[-tests:], y[-tests:])
    return feddc.Federation.from_arrays(x[:-tests], y[:-tests], sizes=[samples] * clients, test=test)
