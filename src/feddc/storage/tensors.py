"""Tensors on disk: safetensors files that are there whole or not at all. Nothing is pickled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ..errors import RunError
from .atomic import write_whole


def write(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
    """Write tensors and a few words about them; after a crash the file is the old one or the new one."""
    write_whole(path, save(_apart(tensors), dict(about)))


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors, each in memory of its own: safetensors refuses those that share it, such as tied weights."""
    found, taken = dict[str, Tensor](), set[int]()
    for name, tensor in tensors.items():
        own = tensor.contiguous()
        memory = own.untyped_storage()
        if memory.nbytes() != own.nbytes or memory.data_ptr() in taken:
            own = own.clone()
        taken.add(own.untyped_storage().data_ptr())
        found[name] = own
    return found


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """What ``write`` wrote; RunError if it cannot be read."""
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118


def read_about(path: Path) -> dict[str, str]:
    """Only the words about the tensors; RunError if they cannot be read."""
    with _opened(path) as file:
        return dict(file.metadata() or {})


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (OSError, SafetensorError) as error:
        raise RunError(f"cannot read {path}: {error}") from None
