"""Tensors on disk: safetensors files that are there whole or not at all. Nothing is pickled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ..errors import RunError
from .atomic import write_whole


def write(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
    """Write tensors and a few words about them; after a crash the file is the old one or the new one."""
    # Clones, as safetensors refuses tensors that share memory, such as tied weights.
    data = save({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, dict(about))
    write_whole(path, data)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """What ``write`` wrote; RunError if it cannot be read."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise RunError(f"cannot read {path}: {error}") from None


def read_about(path: Path) -> dict[str, str]:
    """Only the words about the tensors; RunError if they cannot be read."""
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (OSError, SafetensorError) as error:
        raise RunError(f"cannot read {path}: {error}") from None
