"""The server's state as named tensors and back, so that it can be stored without knowing the method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ..errors import RunError


def named(prefix: str, state: Any) -> dict[str, Tensor]:
    """The tensors of a NamedTuple by name; a field that is a tuple of tensors, such as ``opt``, is numbered."""
    tensors = {}
    for field in state._fields:
        value = getattr(state, field)
        if isinstance(value, Tensor):
            tensors[f"{prefix}.{field}"] = value
        else:
            tensors |= {f"{prefix}.{field}.{i}": each for i, each in enumerate(value)}
    return tensors


def filled(prefix: str, template: Any, tensors: Mapping[str, Tensor]) -> Any:
    """A NamedTuple like ``template`` with the tensors of those names. Raises RunError where they do not fit."""

    def take(name: str, like: Tensor) -> Tensor:
        found = tensors.get(name)
        if found is None or found.shape != like.shape or found.dtype != like.dtype:
            what = "is missing" if found is None else f"has shape {tuple(found.shape)} and type {found.dtype}"
            wanted = f"shape {tuple(like.shape)} and type {like.dtype}"
            raise RunError(f"the stored state is not that of this run: '{name}' {what}, not {wanted}")
        return found.clone()  # into memory that torch aligns: the bits of matrix products may depend on it

    fields: dict[str, Any] = {}
    for field in template._fields:
        value = getattr(template, field)
        if isinstance(value, Tensor):
            fields[field] = take(f"{prefix}.{field}", value)
        else:
            fields[field] = tuple(take(f"{prefix}.{field}.{i}", each) for i, each in enumerate(value))
    return type(template)(**fields)
