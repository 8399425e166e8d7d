"""Map-style datasets that are read while training: a sample is asked for when a batch needs it, and not kept.

Random transforms draw from torch's, numpy's and Python's global generators. Before a batch is read these are seeded by
(seed, round, client, step), and put back afterwards: transforms are fresh in every epoch, and the same for any executor
and any number of readers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import DataError
from ..tasks import Task
from .inputs import Inputs

Key: TypeAlias = tuple[int, ...]
TARGET = "label"


@dataclass(frozen=True)
class Datasets:
    """Several map-style datasets as one run of samples."""

    parts: tuple[Any, ...]
    sizes: tuple[int, ...]
    task: Task
    what: str
    target: str = TARGET
    """Where a sample is a dict, the name of its target."""

    @classmethod
    def of(cls, parts: Sequence[Any], task: Task, what: str, target: str) -> Datasets:
        for i, each in enumerate(parts):
            if not hasattr(each, "__getitem__") or not hasattr(each, "__len__"):
                raise DataError(
                    f"the {what} dataset {i} is a {type(each).__name__}, which has no len() or no [index]: "
                    "give a map-style dataset, such as a torch Dataset, a Hugging Face Dataset or a list"
                )
        sizes = tuple(len(each) for each in parts)
        if 0 in sizes:
            raise DataError(f"the {what} dataset {sizes.index(0)} is empty: every client needs at least one sample")
        return cls(tuple(parts), sizes, task, what, target)

    def __len__(self) -> int:
        return sum(self.sizes)

    def classes(self) -> int | None:
        """How many classes there are, if every dataset says so, as torchvision's and Hugging Face's do."""
        said = [found for each in self.parts if (found := _classes(each, self.target)) is not None]
        return max(said) if len(said) == len(self.parts) else None

    def read(self, rows: Tensor | Sequence[int], key: Key) -> tuple[Inputs, Tensor]:
        """Some samples as one batch; ``key`` decides what is random in them."""
        starts = np.cumsum([0, *self.sizes])
        with seeded(key):
            pairs = [self._sample(starts, int(row)) for row in rows]
        try:
            return _stacked([x for x, _ in pairs]), self._targets([y for _, y in pairs])
        except (TypeError, ValueError, RuntimeError) as error:
            raise DataError(f"the samples of a {self.what} batch do not fit together: {error}") from None

    def _sample(self, starts: NDArray[Any], row: int) -> tuple[Any, Any]:
        part = int(np.searchsorted(starts, row, side="right")) - 1
        place = row - int(starts[part])
        try:
            found = self.parts[part][place]
        except (IndexError, KeyError) as error:
            now = len(self.parts[part])
            raise DataError(
                f"sample {place} of the {self.what} dataset {part} cannot be read ({error}): it had "
                f"{self.sizes[part]} samples at the start and has {now} now"
            ) from None
        return pair(found, self.target, self.what)

    def _targets(self, found: Sequence[Any]) -> Tensor:
        targets = [torch.as_tensor(np.asarray(each)) for each in found]
        return self.task.targets(torch.stack(targets), self.what)


def pair(sample: Any, target: str, what: str) -> tuple[Any, Any]:
    """The input and the target of a sample: (x, y), or a dict with the target under its name."""
    if isinstance(sample, Mapping):
        if target not in sample:
            raise DataError(f"a {what} sample has {', '.join(map(str, sample))}, but no '{target}': give target=")
        rest = {name: value for name, value in sample.items() if name != target}
        return (next(iter(rest.values())) if len(rest) == 1 else rest), sample[target]
    if not isinstance(sample, Sequence) or len(sample) != 2:
        raise DataError(f"a {what} dataset must give pairs (sample, target), not a {type(sample).__name__}")
    return sample[0], sample[1]


def tensor_of(value: Any) -> Tensor:
    """A number, array or picture as a tensor; pictures as (channels, height, width) in 0..1."""
    if isinstance(value, Tensor):
        return value
    array = np.asarray(value)
    if hasattr(value, "getbands"):  # a PIL image
        array = array[..., None] if array.ndim == 2 else array
        return torch.from_numpy(array.transpose(2, 0, 1).astype(np.float32) / 255)
    found = torch.as_tensor(array)
    return found.to(torch.float32) if found.dtype == torch.float64 else found


@contextmanager
def seeded(key: Key) -> Iterator[None]:
    """Seed the global generators by ``key``, and put them back afterwards."""
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()
    seed = int(np.random.default_rng([0x1A2F, *key]).integers(2**63))
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        np.random.set_state(before[1])
        random.setstate(before[2])


class LazyBatches(torch.utils.data.Dataset[tuple[Inputs, Tensor]]):
    """The batches of a client's round, each read when it is asked for: what a DataLoader's workers prefetch."""

    def __init__(self, source: Datasets, rows: Sequence[Tensor], key: Key) -> None:
        self.source, self.rows, self.key = source, rows, key

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, step: int) -> tuple[Inputs, Tensor]:
        return self.source.read(self.rows[step], (*self.key, step))

    def read(self, readers: int) -> Iterator[tuple[Inputs, Tensor]]:
        """All of them in order; ``readers`` processes read ahead, or none."""
        if not readers:
            yield from (self[step] for step in range(len(self)))
            return
        loader: Any = torch.utils.data.DataLoader(self, batch_size=None, num_workers=readers, prefetch_factor=2)
        yield from loader


def same_twice(dataset: Any, target: str = TARGET) -> bool:
    """Whether the first samples are the same when they are read again."""
    rows = range(min(3, len(dataset)))
    found = []
    for luck in (1, 2):
        with seeded((luck,)):
            found.append([_flat(pair(dataset[i], target, "training")[0]) for i in rows])
    return all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(*found, strict=True))


def _classes(dataset: Any, target: str) -> int | None:
    feature = getattr(dataset, "features", {})
    feature = feature.get(target) if isinstance(feature, Mapping) else None
    named = getattr(dataset, "classes", None)
    if getattr(feature, "num_classes", None):
        return int(feature.num_classes)  # type: ignore[union-attr]
    return len(named) if isinstance(named, Sequence) else None


def _stacked(samples: Sequence[Any]) -> Inputs:
    first = samples[0]
    if isinstance(first, Mapping):
        return {name: torch.stack([tensor_of(each[name]) for each in samples]) for name in first}
    if isinstance(first, tuple):
        return tuple(torch.stack([tensor_of(each[i]) for each in samples]) for i in range(len(first)))
    return torch.stack([tensor_of(each) for each in samples])


def _flat(value: Any) -> Tensor:
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else [value]
    return torch.cat([tensor_of(each).reshape(-1).double() for each in parts])
