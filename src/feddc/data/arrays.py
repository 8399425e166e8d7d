"""Arrays, tensors and datasets as checked samples in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError
from ..tasks import Task
from .inputs import Inputs, each, shapes, tensors
from .lazy import Datasets, same_twice
from .stored import Mapped, all_finite

InputsAndTargets: TypeAlias = tuple[Inputs, Tensor]


def samples_of(x: Any, y: Any, what: str, task: Task) -> InputsAndTargets:
    if isinstance(x, Mapping):
        features: Inputs = {str(name): _tensor(part, what) for name, part in x.items()}
    else:
        features = tuple(_tensor(part, what) for part in x) if isinstance(x, tuple) else _tensor(x, what)
    targets = _tensor(y, what, "labels")
    parts = tensors(features)
    bad = [part for part in parts if part.ndim < (1 if len(parts) > 1 else 2) or targets.ndim < 1]
    bad += [part for part in parts if not bad and len(part) != len(targets)]
    if bad or not parts:
        found = f"{tuple(bad[0].shape)} and {tuple(targets.shape)}" if bad else "none"
        raise DataError(f"{what} data needs samples of shape (n, …) and labels of shape (n,), not {found}")
    if len(targets) == 0:
        raise DataError(f"{what} data is empty")
    return each(lambda part: _numbers(part, what), features), task.targets(targets, what).contiguous()


def _tensor(values: Any, what: str, part: str = "data") -> Tensor:
    if isinstance(values, np.memmap) and values.filename is not None and part == "data":
        return Mapped(values, what)  # type: ignore[return-value]
    values = values.to_numpy() if hasattr(values, "to_numpy") else values  # pandas
    first: Any = np.asarray(values).flat[:1] if isinstance(values, np.ndarray | list | tuple) else []
    if len(first) and isinstance(first[0], str):
        how = ": numpy.unique(y, return_inverse=True)[1] gives class numbers" if part == "labels" else ""
        raise DataError(f"{what} {part} must be numeric arrays or tensors, not texts such as '{first[0]}'{how}")
    if isinstance(values, np.ndarray) and not values.flags.writeable:
        values = values.copy()  # torch wants to be able to write
    try:
        return torch.as_tensor(values).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{what} {part} must be numeric arrays or tensors: {error}") from None


def _numbers(features: Tensor, what: str) -> Tensor:
    if isinstance(features, Mapped):
        return features
    if features.is_floating_point():
        if not all_finite(features):
            where = int((~torch.isfinite(features.reshape(len(features), -1))).any(dim=1).nonzero()[0])
            raise DataError(f"{what} data has NaN or Inf in sample {where}")
        features = features.to(torch.float32)
    return features.contiguous()


def check_alike(test: Inputs, train: Inputs) -> None:
    """Refuse test samples that are of another kind than the training samples."""
    if each(lambda part: tuple(part.shape[1:]), test) != each(lambda part: tuple(part.shape[1:]), train):
        raise DataError(f"test samples have shape {shapes(test)}, training samples {shapes(train)}")


def aligned(x: Inputs, y: Tensor) -> InputsAndTargets:
    """The samples at an address that torch itself would give: matrix products may round differently on others."""
    return each(lambda part: part if isinstance(part, Mapped) or part.data_ptr() % 64 == 0 else part.clone(), x), y


def materialise(dataset: Any, target: str, what: str) -> InputsAndTargets:
    """Read a map-style dataset once, so that training needs no per-sample Python."""
    source = Datasets.of([dataset], Task(), what, target)
    if not same_twice(dataset, target):
        raise DataError(
            f"the {what} dataset gives other values when it is read again: reading it once would freeze its random "
            "transforms; use Federation.from_datasets, which reads while it trains, or augment="
        )
    return source.read(range(len(source)), (0,))
