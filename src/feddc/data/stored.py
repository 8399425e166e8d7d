"""How samples are stored, and what is done to a batch of them before a model sees it.

Bytes stay bytes and become floats a batch or a client at a time: images then take a quarter of the memory, in this
process and in what workers share. An array that is mapped from a file is never read whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import DataError
from .partition import Indices


@dataclass(frozen=True)
class Pixels:
    """Bytes to standardised floats: (x / 255 − mean) / std, with a number for each channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, part: Tensor) -> Tensor:
        mean, std = (
            torch.tensor(each, device=part.device).view(1, -1, *[1] * (part.ndim - 2)) for each in (self.mean, self.std)
        )
        return part.to(torch.float32).div_(255).sub_(mean).div_(std)


def as_floats(part: Tensor) -> Tensor:
    """Bytes as floats of the same values; anything else as it is."""
    return part.to(torch.float32) if part.dtype == torch.uint8 else part


def all_finite(part: Tensor) -> bool:
    """Whether there is no NaN or Inf, without a mask of the data's size."""
    return not part.numel() or bool(torch.isfinite(torch.stack(torch.aminmax(part))).all())


class Mapped:
    """An array in a file, of which rows are read when they are asked for. The file is open only while they are."""

    def __init__(self, array: np.memmap[Any, Any], what: str) -> None:
        if array.filename is None or not array.flags.c_contiguous or array.dtype.kind not in "fiu":
            raise DataError(
                f"{what} data in a file must be a numpy.memmap of numbers, whole or rows that follow each other, "
                "not every other row and not a transpose"
            )
        self.path, self.offset, self.shape = Path(array.filename), _offset(array), tuple(array.shape)
        self._kind, self._what = array.dtype, what
        self.ndim, self.device = array.ndim, torch.device("cpu")
        self.dtype = torch.float32 if array.dtype.kind == "f" else torch.from_numpy(np.empty(0, array.dtype)).dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def __getitem__(self, rows: slice) -> Tensor:
        return self._read(np.arange(len(self))[rows])

    def index_select(self, _: int, rows: Tensor) -> Tensor:
        """These rows, as ``Tensor.index_select`` gives them."""
        return self._read(rows.numpy())

    def _read(self, rows: Indices) -> Tensor:
        found = np.empty((len(rows), *self.shape[1:]), self._kind)
        try:
            self._fill(found, rows)
        except OSError as error:
            raise DataError(f"{self.path}, from which {self._what} samples are read, cannot be used: {error}") from None
        values = torch.from_numpy(found)
        if not values.is_floating_point():
            return values
        if not all_finite(values):
            raise DataError(f"{self.path} has NaN or Inf in its {self._what} samples")
        return values.to(torch.float32)

    def _fill(self, found: NDArray[Any], rows: Indices) -> None:
        """Read the rows from the file, those that follow each other at once.

        Not through the map: touching a page of it makes its neighbours resident too, up to sixteen times the memory.
        """
        row = self._kind.itemsize * math.prod(self.shape[1:])
        space, begins = (
            memoryview(found.reshape(-1).view(np.uint8).data),
            np.flatnonzero(np.diff(rows, prepend=-2) != 1),
        )
        with self.path.open("rb") as file:
            for start, stop in pairwise([*begins.tolist(), len(rows)]):
                file.seek(self.offset + int(rows[start]) * row)
                if file.readinto(space[start * row : stop * row]) != (stop - start) * row:
                    raise OSError("it is shorter than it was")


def _offset(array: np.memmap[Any, Any]) -> int:
    """Where in its file an array begins. A part of a mapped array has the ``offset`` of the whole."""
    whole = array
    while isinstance(whole.base, np.memmap):
        whole = whole.base
    return int(whole.offset) + int(array.ctypes.data) - int(whole.ctypes.data)
