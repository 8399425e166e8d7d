"""Tensors in memory that several processes see."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping

import torch
from torch import Tensor

TensorLayout = Mapping[str, tuple[torch.dtype, tuple[int, ...]]]
"""The name, type and shape of every tensor."""

_ALIGNMENT = 64  # what torch gives its own tensors: matrix products may round differently on other addresses


class SharedMemory:
    """Named tensors in one anonymous file: it has no name to clean up, and pages never touched cost nothing."""

    def __init__(self, layout: TensorLayout, file: int | None = None) -> None:
        """New memory, or, in a process that was handed the descriptor ``file``, the memory behind it."""
        offsets, size = _place(layout)
        self.layout = layout
        self.file = _anonymous_file(size) if file is None else file
        # The map keeps the memory; each tensor keeps the map.
        memory = mmap.mmap(self.file, size)
        self._tensors = {name: _tensor(memory, offsets[name], dtype, shape) for name, (dtype, shape) in layout.items()}

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def close(self) -> None:
        """Close the descriptor; the memory goes when its last tensor does."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


def _anonymous_file(size: int) -> int:
    if hasattr(os, "memfd_create"):  # Linux; unlike /dev/shm, containers do not limit it to 64 MB
        file = os.memfd_create("feddc")
    else:
        with tempfile.TemporaryFile(prefix="feddc-") as temporary:
            file = os.dup(temporary.fileno())
    os.ftruncate(file, size)
    return file


def _place(layout: TensorLayout) -> tuple[dict[str, int], int]:
    offsets, end = {}, 0
    for name, (dtype, shape) in layout.items():
        offsets[name] = end
        end += -(-torch.Size(shape).numel() * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
    return offsets, max(end, mmap.PAGESIZE)


def _tensor(memory: mmap.mmap, offset: int, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    count = torch.Size(shape).numel()
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype, count=count, offset=offset).view(shape)
