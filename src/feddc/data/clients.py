"""Which client holds which samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import DataError
from .partition import Indices, check_indices, split_indices, strata


class Clients(Sequence[Tensor]):
    """The rows of each client, cut from one array when asked for: a tensor each would be most of the memory of many
    small clients."""

    def __init__(self, rows: Indices, sizes: Indices) -> None:
        self.rows = torch.from_numpy(np.ascontiguousarray(rows, dtype=np.int64))
        self.sizes = sizes.astype(np.int64)
        self._stops = np.cumsum(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, client: int) -> Tensor: ...
    @overload
    def __getitem__(self, client: slice) -> Sequence[Tensor]: ...
    def __getitem__(self, client: int | slice) -> Tensor | Sequence[Tensor]:
        if isinstance(client, slice):
            return [self[each] for each in range(*client.indices(len(self)))]
        stop, size = self._stops[client], self.sizes[client]
        return self.rows[stop - size : stop]


def together(rows: Sequence[Indices]) -> Clients:
    return Clients(np.concatenate(rows), np.array([len(each) for each in rows], dtype=np.int64))


def divided(rows: Indices, shares: tuple[float, float], seed: int, client: int) -> tuple[Indices, Indices, Indices]:
    """One client's rows to train on, to hold out and to validate with, each in the order that they were in."""
    order = np.random.default_rng([seed, 0x4E1D, client]).permutation(len(rows))
    taken, counts = 0, []
    for share in shares:
        spare = len(rows) - taken - 1
        counts.append(min(max(1, round(share * len(rows))), spare) if share else 0)
        taken += counts[-1]
    held, aside, train = np.split(order, np.cumsum(counts))
    return rows[np.sort(train)], rows[np.sort(held)], rows[np.sort(aside)]


def sample_weights(sizes: Indices) -> Tensor:
    """ω_i = n_i / mean(n) of clients with these numbers of samples, the column (N, 1)."""
    counts = torch.from_numpy(sizes).to(torch.float64)
    return (counts / counts.mean()).to(torch.float32).unsqueeze(1)


def runs(sizes: Indices, samples: int) -> Clients:
    """Samples that follow each other, so many for each client."""
    if sizes.ndim != 1 or len(sizes) == 0 or not np.issubdtype(sizes.dtype, np.integer):
        raise DataError("sizes must be a list of whole numbers, the samples of each client")
    if (sizes <= 0).any():
        raise DataError(f"client {int(np.argmax(sizes <= 0))} is empty: every client needs at least one sample")
    if sizes.sum() != samples:
        raise DataError(f"sizes add up to {int(sizes.sum())}, but there are {samples} samples")
    return Clients(np.arange(samples), sizes)


def drawn(split: str, targets: NDArray[Any], clients: int, seed: int) -> Clients:
    """The samples of each client by a split."""
    rng = np.random.default_rng([seed, 0xDA7A])
    return _checked(split_indices(split, strata(targets, split), clients, rng), len(targets))


def listed(clients: Sequence[Any] | Mapping[int, Any] | None, samples: int) -> Clients:
    """The samples of each client as they are listed, by place or by number."""
    given = [clients[i] for i in sorted(clients)] if isinstance(clients, Mapping) else clients
    return _checked([_index_array(i, rows) for i, rows in enumerate(() if given is None else given)], samples)


def held_apart(held: Sequence[Any], clients: Sequence[Tensor], samples: int) -> Clients:
    """The samples that each client holds out; DataError where one is also trained on or held out twice."""
    found = [_index_array(i, rows) for i, rows in enumerate(held)]
    if len(found) != len(clients):
        raise DataError(f"holdout has the indices of {len(found)} clients, but there are {len(clients)}")
    rows = np.concatenate(found)
    if len(rows) and not 0 <= rows.min() <= rows.max() < samples:
        raise DataError(f"holdout has a sample outside 0..{samples - 1}")
    twice = np.concatenate([rows, *(mine.numpy() for mine in clients)])
    if len(np.unique(twice)) < len(twice):
        raise DataError("holdout has a sample that is trained on or held out twice")
    return together(found)


def _checked(indices: Sequence[Indices], samples: int) -> Clients:
    check_indices(indices, samples)
    return together(indices)


def _index_array(client: int, indices: Any) -> Indices:
    array = np.asarray(indices)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise DataError(f"the indices of client {client} must be a list of whole numbers")
    return array.astype(np.int64)
