"""Splits: which client holds which samples. Every split uses each sample exactly once.

A split is a frozen dataclass with ``assign(labels, sizes, rng)``; ``sizes`` (how many samples each client gets) comes
first, from ``equal_sizes`` or ``lognormal_sizes``, so that any split can be unbalanced, as in ``iid+unbalanced:0.3``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import specs
from ..errors import ConfigError, DataError, check, check_count, check_number

Indices: TypeAlias = NDArray[np.int64]


class Split(Protocol):
    def assign(self, labels: Indices, sizes: Indices, rng: np.random.Generator) -> list[Indices]: ...


@dataclass(frozen=True)
class IID:
    """Shuffled parts; with stratified=true each client has every class in the same proportion."""

    stratified: bool = False

    def assign(self, labels: Indices, sizes: Indices, rng: np.random.Generator) -> list[Indices]:
        order = rng.permutation(len(labels))
        if self.stratified:
            # Deal the samples, sorted by class, to the clients' places in turn: each class is spread evenly.
            order = order[np.argsort(labels[order], kind="stable")]
            place = np.concatenate([(np.arange(size) + rng.random()) / size for size in sizes])
            order = order[np.argsort(np.argsort(place, kind="stable"), kind="stable")]
        return _cut(order, sizes)


@dataclass(frozen=True)
class Dirichlet:
    """Each client has its own class proportions, drawn from Dirichlet(alpha): the smaller, the less alike."""

    alpha: float = 0.3

    def __post_init__(self) -> None:
        check_number("dirichlet alpha", self.alpha, 0, above=True)

    def assign(self, labels: Indices, sizes: Indices, rng: np.random.Generator) -> list[Indices]:
        pools = [rng.permutation(np.flatnonzero(labels == c)) for c in np.unique(labels)]
        left = np.array([len(pool) for pool in pools])
        priors = rng.dirichlet(np.full(len(pools), self.alpha), size=len(sizes))  # (clients, classes)
        taken = np.zeros((len(sizes), len(pools)), dtype=np.int64)
        chances = np.cumsum(priors, axis=1)
        # As in the authors' code a random client draws next, one sample at a time, so that no client is served last.
        turns = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
        for client, luck in zip(turns, rng.random(len(turns)), strict=True):
            chance = chances[client]
            chosen = int(np.searchsorted(chance, luck * chance[-1], side="right"))
            left[chosen] -= 1
            taken[client, chosen] += 1
            if left[chosen] == 0 and left.any():
                # Renormalise over the classes that remain; a client with none of its own left takes what there is.
                open_priors = priors * (left > 0)
                open_priors[open_priors.sum(axis=1) < 1e-200] = left
                chances = np.cumsum(open_priors, axis=1)
        return _deal(pools, taken)


@dataclass(frozen=True)
class Pathological:
    """Each client has samples of at most k classes; sizes are only roughly equal, as the classes allow."""

    k: int = 2

    def __post_init__(self) -> None:
        check_count("pathological k", self.k)

    def assign(self, labels: Indices, sizes: Indices, rng: np.random.Generator) -> list[Indices]:
        names = np.unique(labels)
        check(
            self.k <= len(names), f"pathological:{self.k} asks for {self.k} classes a client, the data has {len(names)}"
        )
        check(
            self.k * len(sizes) >= len(names),
            f"pathological:{self.k} with {len(sizes)} clients cannot place {len(names)} classes: use more of either",
        )
        owners = _class_owners(len(sizes), len(names), self.k, rng)
        pools = [rng.permutation(np.flatnonzero(labels == name)) for name in names]
        taken = np.zeros((len(sizes), len(names)), dtype=np.int64)
        for c, pool in enumerate(pools):
            holders = np.flatnonzero(owners[:, c])
            check(
                len(pool) >= len(holders),
                f"pathological:{self.k} with {len(sizes)} clients leaves some without a sample of class {names[c]}",
            )
            share = np.floor(sizes[holders] / sizes[holders].sum() * (len(pool) - len(holders))).astype(np.int64) + 1
            share[: len(pool) - share.sum()] += 1
            taken[holders, c] = share
        return _deal(pools, taken)


@dataclass(frozen=True)
class Shards:
    """The data sorted by class, cut into shards; each client gets k of them at random."""

    k: int = 2

    def __post_init__(self) -> None:
        check_count("shards k", self.k)

    def assign(self, labels: Indices, sizes: Indices, rng: np.random.Generator) -> list[Indices]:
        check(
            self.k * len(sizes) <= len(labels),
            f"shards:{self.k} with {len(sizes)} clients needs {self.k * len(sizes)} samples, there are {len(labels)}",
        )
        order = rng.permutation(len(labels))
        order = order[np.argsort(labels[order], kind="stable")]
        owner = rng.permutation(np.repeat(np.arange(len(sizes)), self.k))
        shards = _cut(order, _shares(sizes[owner], len(labels)))  # a large client's shards are longer
        return [np.concatenate([shards[s] for s in np.flatnonzero(owner == c)]) for c in range(len(sizes))]


SPLITS: specs.Registry = {"iid": IID, "dirichlet": Dirichlet, "pathological": Pathological, "shards": Shards}


@dataclass(frozen=True)
class Unbalanced:
    """Sizes drawn from a lognormal with this sigma; combine it with any split: dirichlet:0.3+unbalanced:0.3."""

    sigma: float = 0.3

    def __post_init__(self) -> None:
        check_number("unbalanced sigma", self.sigma, 0, 10)


def equal_sizes(samples: int, clients: int) -> Indices:
    """Sizes that differ by at most one and add up to ``samples``."""
    return np.array([samples // clients + (i < samples % clients) for i in range(clients)], dtype=np.int64)


def lognormal_sizes(samples: int, clients: int, sigma: float, rng: np.random.Generator) -> Indices:
    """Lognormal sizes, at least 1 each, that add up to ``samples``."""
    return _shares(rng.lognormal(sigma=sigma, size=clients), samples)


def strata(targets: NDArray[Any], split: str) -> Indices:
    """The labels that a split divides by: classes as they are, numbers by their ten quantile ranges.

    Targets of several numbers a sample have none; a split that needs some is refused.
    """
    if targets.ndim == 1 and np.issubdtype(targets.dtype, np.floating):
        edges = np.quantile(targets, np.linspace(0.1, 0.9, 9))
        return np.searchsorted(edges, targets, side="right").astype(np.int64)
    if targets.ndim == 1:
        return targets
    name = split.partition("+")[0].partition(":")[0]
    if name not in SPLITS or name == "iid":
        return np.zeros(len(targets), dtype=np.int64)
    raise DataError(f"the split '{name}' divides by class, but the targets are several numbers a sample: use iid")


def split_indices(text: str, labels: Indices, clients: int, rng: np.random.Generator) -> list[Indices]:
    """The clients' sample indices for a split written as ``name[:option][+unbalanced[:sigma]]``."""
    check_count("clients", clients)
    if clients > len(labels):
        raise DataError(f"{clients} clients cannot share {len(labels)} samples: each needs at least one")
    name, plus, sizing = text.partition("+")
    split: Split = specs.make("split", SPLITS, name)
    if plus:
        sigma = specs.make("size rule", {"unbalanced": Unbalanced}, sizing).sigma
        sizes = lognormal_sizes(len(labels), clients, sigma, rng)
    else:
        sizes = equal_sizes(len(labels), clients)
    return split.assign(labels, sizes, rng)


def check_indices(clients: Sequence[Indices], samples: int) -> None:
    """Refuse explicit indices that are empty, out of range, or given twice."""
    if not clients:
        raise DataError("a federation needs at least one client")
    owner = np.full(samples, -1)
    for i, indices in enumerate(clients):
        if len(indices) == 0:
            raise DataError(f"client {i} is empty: every client needs at least one sample")
        if indices.min() < 0 or indices.max() >= samples:
            wrong = indices.min() if indices.min() < 0 else indices.max()
            raise DataError(f"client {i} has sample {wrong}, outside 0..{samples - 1}")
        twice = indices[owner[indices] >= 0]
        if len(twice) or len(np.unique(indices)) < len(indices):
            raise DataError(f"client {i} holds a sample that is already taken: each sample belongs to one client only")
        owner[indices] = i


def _cut(order: Indices, sizes: Indices) -> list[Indices]:
    return np.split(order, np.cumsum(sizes)[:-1])


def _deal(pools: list[Indices], taken: Indices) -> list[Indices]:
    """Hand out each class's pool, ``taken[client, class]`` samples to each client."""
    parts = [_cut(pool, taken[:, c]) for c, pool in enumerate(pools)]
    return [np.concatenate([part[client] for part in parts]) for client in range(len(taken))]


def _shares(weights: NDArray[np.float64] | Indices, samples: int) -> Indices:
    """Whole numbers, at least 1 each, in proportion to ``weights``, that add up to ``samples``."""
    spare = samples - len(weights)
    if spare < 0:
        raise ConfigError(f"{len(weights)} parts cannot share {samples} samples: each needs at least one")
    exact = np.asarray(weights, dtype=np.float64) / np.sum(weights) * spare
    whole = np.floor(exact).astype(np.int64)
    largest_rest = np.argsort(-(exact - whole), kind="stable")[: spare - whole.sum()]
    whole[largest_rest] += 1
    shares: Indices = whole + 1
    return shares


def _class_owners(clients: int, classes: int, k: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which client holds which classes: k each, every class as often as any other, give or take one."""
    owners = np.zeros((clients, classes), dtype=bool)
    count = np.zeros(classes, dtype=np.int64)
    for client in rng.permutation(clients):
        chosen = np.lexsort((rng.random(classes), count))[:k]  # the least used first, ties at random
        owners[client, chosen] = True
        count[chosen] += 1
    return owners
