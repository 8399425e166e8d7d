"""Data sets that need no download."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import check, check_count, check_number
from .federation import Federation
from .request import Request

MOST_SAMPLES = 10**7  # 30 features each, some gigabytes


def digits(request: Request) -> Federation:
    """scikit-learn's 1797 handwritten digits, 8×8 grey, 10 classes; every fifth is kept for the test."""
    x, y = _digits()
    order = np.random.default_rng(0).permutation(len(y))  # the same test set for every seed
    x, y = (x[order] / 16.0).astype(np.float32), y[order]
    held_out = np.arange(len(y)) % 5 == 0
    test = (x[held_out], y[held_out])
    return request.federation(x[~held_out], y[~held_out], test=test, name="digits", classes=10)


def _digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The pixels, 0 to 16, and the classes, from scikit-learn's file: importing it for them would take two seconds."""
    spec = find_spec("sklearn")
    assert spec is not None  # it is a dependency
    assert spec.submodule_search_locations is not None
    [package] = spec.submodule_search_locations
    table = np.loadtxt(Path(package, "datasets", "data", "digits.csv.gz"), delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int64)


def synthetic(
    request: Request,
    gamma1: float = 0.0,
    gamma2: float = 0.0,
    shared_solution: bool = True,
    samples: int = 200,
) -> Federation:
    """Synthetic(γ1, γ2): 30 features, 5 classes, each client with its own distribution; tested on all samples.

    x ~ N(m_i, Σ) with Σ_jj = j^−1.2, label = argmax(x W_i + b_i). γ1 spreads the W_i, γ2 the means m_i. With
    ``shared_solution`` all clients have one W and b, which is what the published accuracies need; without it no single
    model can fit them all.
    The clients are made with their data: there is nothing to split.
    """
    check(request.split is None, f"synthetic data is made client by client: leave the split '{request.split}' out")
    check_count("clients", request.clients)
    check_count("samples", samples)
    total = request.clients * samples
    check(total <= MOST_SAMPLES, f"{total} samples are too many to make: at most {MOST_SAMPLES}, clients × samples")
    check_number("gamma1", gamma1, 0)
    check_number("gamma2", gamma2, 0)
    features, classes = 30, 5
    rng = np.random.default_rng([request.seed, 0x5117])
    scale = np.arange(1, features + 1) ** -0.6  # the square root of Σ_jj
    common = rng.normal(size=(features + 1, classes))
    xs, ys = [], []
    for _ in range(request.clients):
        solution = rng.normal(rng.normal(0, gamma1), 1, size=common.shape)
        weight, bias = np.split(common if shared_solution else solution, [features])
        mean = rng.normal(rng.normal(0, gamma2), 1, size=features) if gamma2 else np.zeros(features)
        x = mean + rng.normal(size=(samples, features)) * scale
        xs.append(x)
        ys.append(np.argmax(x @ weight + bias, axis=1))
    x_all, y_all = torch.tensor(np.concatenate(xs), dtype=torch.float32), torch.tensor(np.concatenate(ys))
    name = f"synthetic({gamma1:g},{gamma2:g})"
    return Federation.from_arrays(
        x_all, y_all, sizes=[samples] * request.clients, test=(x_all, y_all), classes=classes, name=name
    )
