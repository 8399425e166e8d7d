"""A federation: samples in memory, which client holds which, and a test set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError, check
from .partition import Indices, check_indices, split_indices

Samples = tuple[Tensor, Tensor]
Augment: TypeAlias = Callable[[Tensor, np.random.Generator], Tensor]


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


@dataclass(frozen=True)
class Federation:
    """Clients with their samples. Make one with ``from_arrays``, ``from_dataset`` or ``feddc.load``.

    ``x`` (n, …) and ``y`` (n,) hold all training samples; ``clients[i]`` are the rows of client i. ``test`` is what the
    global model is evaluated on, or None. ``name`` says what it is, for records and reports. ``augment``
    changes a batch of training samples at random, with the generator that it is given (see ``feddc.data.augment``).
    """

    x: Tensor
    y: Tensor
    clients: Sequence[Tensor]
    test: Samples | None
    classes: int
    name: str = "arrays"
    augment: Augment | None = None

    @classmethod
    def from_arrays(
        cls,
        x: Any,
        y: Any,
        *,
        sizes: Sequence[int] | None = None,
        clients: Sequence[Any] | int | None = None,
        split: str = "iid",
        test: tuple[Any, Any] | None = None,
        classes: int | None = None,
        seed: int = 0,
        name: str = "arrays",
    ) -> Federation:
        """A federation from arrays or tensors.

        Say who holds what in one of three ways: ``sizes`` (consecutive runs of samples), ``clients=[index arrays]``,
        or a number of ``clients`` and a ``split`` such as ``"dirichlet:0.3"``. ``y`` holds class numbers from 0. The
        numbers in ``x`` are taken as they are: scale images to about 0..1 yourself.
        """
        train = _samples(x, y, "training")
        held_out = None if test is None else _aligned(*_samples(*test, "test"))
        labels = train[1].numpy()
        found = int(max(labels.max(), held_out[1].max() if held_out else 0)) + 1
        if classes is not None and classes < found:
            raise DataError(f"labels go up to {found - 1}, which is outside the {classes} classes 0..{classes - 1}")
        check((sizes is None) != (clients is None), "give either sizes= or clients=, to say which client holds what")
        if sizes is not None:
            rows = _runs(np.asarray(sizes), len(labels))
        else:
            if isinstance(clients, int | np.integer):
                indices = split_indices(split, labels, int(clients), np.random.default_rng([seed, 0xDA7A]))
            else:
                indices = [_index_array(i, each) for i, each in enumerate(clients or [])]
            check_indices(indices, len(labels))
            rows = Clients(np.concatenate(indices), np.array([len(each) for each in indices]))
        if held_out and held_out[0].shape[1:] != train[0].shape[1:]:
            raise DataError(
                f"test samples have shape {tuple(held_out[0].shape[1:])}, training samples {tuple(train[0].shape[1:])}"
            )
        return cls(*train, rows, held_out, classes or found, name)

    @classmethod
    def from_dataset(cls, dataset: Any, *, test: Any = None, **options: Any) -> Federation:
        """A federation from map-style torch Datasets of (sample, label); options as for ``from_arrays``."""
        held_out = None if test is None else _materialise(test)
        return cls.from_arrays(*_materialise(dataset), test=held_out, **options)

    def __len__(self) -> int:
        """The number of clients."""
        return len(self.clients)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.x.shape[1:])

    @property
    def sizes(self) -> Indices:
        """Samples per client."""
        if isinstance(self.clients, Clients):
            return self.clients.sizes
        return np.array([len(each) for each in self.clients], dtype=np.int64)

    @property
    def weights(self) -> Tensor:
        """ω_i = n_i / mean(n), the column (N, 1)."""
        return sample_weights(self.sizes)

    def client_samples(self, client: int) -> Samples:
        """The samples of one client, as contiguous tensors."""
        rows = self.clients[client]
        return self.x.index_select(0, rows), self.y.index_select(0, rows)

    def label_counts(self) -> Indices:
        """How many samples of each class each client holds, (clients, classes)."""
        return np.stack([np.bincount(self.y[rows].numpy(), minlength=self.classes) for rows in self.clients])


def sample_weights(sizes: Indices) -> Tensor:
    """ω_i = n_i / mean(n) of clients with these numbers of samples, the column (N, 1)."""
    counts = torch.from_numpy(sizes).to(torch.float64)
    return (counts / counts.mean()).to(torch.float32).unsqueeze(1)


def _samples(x: Any, y: Any, what: str) -> Samples:
    try:
        features, labels = torch.as_tensor(x), torch.as_tensor(y)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{what} data must be numeric arrays or tensors: {error}") from None
    features, labels = features.detach().cpu(), labels.detach().cpu()
    if features.ndim < 2 or labels.ndim != 1 or len(features) != len(labels):
        raise DataError(
            f"{what} data needs samples of shape (n, …) and labels of shape (n,), "
            f"not {tuple(features.shape)} and {tuple(labels.shape)}"
        )
    if len(labels) == 0:
        raise DataError(f"{what} data is empty")
    if labels.is_floating_point() or labels.is_complex():
        raise DataError(f"{what} labels must be whole numbers, the class of each sample, not {labels.dtype}")
    if labels.min() < 0:
        raise DataError(f"{what} labels must be 0 or more, but one is {int(labels.min())}")
    if features.is_floating_point():
        if not torch.isfinite(torch.stack(torch.aminmax(features))).all():  # without a mask of the data's size
            where = int((~torch.isfinite(features.flatten(1))).any(dim=1).nonzero()[0])
            raise DataError(f"{what} data has NaN or Inf in sample {where}")
        features = features.to(torch.float32)
    elif features.dtype == torch.uint8:
        features = features.to(torch.float32)
    return features.contiguous(), labels.to(torch.int64).contiguous()


def _aligned(x: Tensor, y: Tensor) -> Samples:
    """The samples at an address that torch itself would give: matrix products may round differently on others."""
    return x if x.data_ptr() % 64 == 0 else x.clone(), y


def _runs(sizes: Indices, samples: int) -> Clients:
    if sizes.ndim != 1 or len(sizes) == 0 or not np.issubdtype(sizes.dtype, np.integer):
        raise DataError("sizes must be a list of whole numbers, the samples of each client")
    if (sizes <= 0).any():
        raise DataError(f"client {int(np.argmax(sizes <= 0))} is empty: every client needs at least one sample")
    if sizes.sum() != samples:
        raise DataError(f"sizes add up to {int(sizes.sum())}, but there are {samples} samples")
    return Clients(np.arange(samples), sizes)


def _index_array(client: int, indices: Any) -> Indices:
    array = np.asarray(indices)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise DataError(f"the indices of client {client} must be a list of whole numbers")
    return array.astype(np.int64)


def _materialise(dataset: Any) -> Samples:
    """Read a map-style dataset once, so that training needs no per-sample Python."""
    if not len(dataset):
        raise DataError("the dataset is empty")
    pairs = [dataset[i] for i in range(len(dataset))]
    try:
        x = torch.stack([torch.as_tensor(np.asarray(sample)) for sample, _ in pairs])
        y = torch.tensor([label for _, label in pairs])
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"a dataset must give (sample, label) pairs of equal shape: {error}") from None
    return x, y
