"""Samples as one tensor, or as a dict or tuple of tensors that share their first dimension.

A model is called with a tensor as it is, with a dict by keyword, and with a tuple by position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

Inputs: TypeAlias = Any
"""A Tensor, a dict of names and Tensors, or a tuple of Tensors."""


def each(function: Callable[[Tensor], Any], x: Inputs) -> Any:
    """``function`` of every tensor, in the same shape."""
    if isinstance(x, Tensor):
        return function(x)
    if isinstance(x, tuple):
        return tuple(map(function, x))
    return {name: function(part) for name, part in x.items()} if isinstance(x, Mapping) else function(x)


def tensors(x: Inputs) -> list[Tensor]:
    """The tensors of a sample, in order."""
    return list(x.values()) if isinstance(x, Mapping) else list(x) if isinstance(x, tuple) else [x]


def take(x: Inputs, rows: Tensor) -> Inputs:
    """Some samples, copied."""
    return each(lambda part: part.index_select(0, rows.to(part.device)), x)  # faster than part[rows]


def cut(x: Inputs, block: slice) -> Inputs:
    """Samples that follow each other, as views."""
    return each(lambda part: part[block], x)


def ready(x: Inputs, dtype: torch.dtype, memory_format: torch.memory_format = torch.contiguous_format) -> Inputs:
    """Samples as a model in ``dtype`` takes them: floats in its type, images in its order of channels."""

    def convert(part: Tensor) -> Tensor:
        part = part.to(dtype) if part.is_floating_point() else part
        return part.contiguous(memory_format=memory_format if part.ndim == 4 else torch.contiguous_format)

    return each(convert, x)


def arguments(x: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional and keyword arguments of a model's call."""
    if isinstance(x, Mapping):
        return (), dict(x)
    return (x if isinstance(x, tuple) else (x,)), {}


def shapes(x: Inputs) -> str:
    """The shape of one sample, for messages."""
    if isinstance(x, Mapping):
        return ", ".join(f"{name} {tuple(part.shape[1:])}" for name, part in x.items())
    return ", ".join(str(tuple(part.shape[1:])) for part in tensors(x))
