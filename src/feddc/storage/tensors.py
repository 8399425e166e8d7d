"""Tensors on disk: safetensors files that are there whole or not at all. Nothing is pickled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ..errors import RunError


def write(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
    """Write tensors and a few words about them; after a crash the file is the old one or the new one."""
    # Clones, as safetensors refuses tensors that share memory, such as tied weights.
    data = save({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, dict(about))
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name survives a power cut, too
    finally:
        os.close(folder)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """What ``write`` wrote; RunError if it cannot be read."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise RunError(f"cannot read {path}: {error}") from None
