"""NamedTuples of tensors as named arrays and back: what a method sends, uploads and keeps.

Both sides know a method's fields and shapes without being told, by running its pure functions once on the initial model
(``Templates``). What arrives must match them exactly.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..algorithms import Algorithm
from ..engine.compress import Compression
from ..errors import ConfigError, DataError
from ..models import Buffers, FlatModel
from ..types import LocalResult

Arrays = dict[str, NDArray[Any]]


class Templates(NamedTuple):
    """A value of each kind that has the right fields, shapes and types."""

    server: Any
    sent: Any
    client: Any
    """One client's state, vectors (P,)."""
    upload: Any
    """One client's upload, vectors (P,); None where it was not asked for."""
    buffers: Buffers


def templates(algorithm: Algorithm, model: FlatModel, *, uploads: bool = True) -> Templates:
    """What this method sends, keeps and, if that is asked for, uploads for this model."""
    if model.params.dtype != torch.float32:
        raise ConfigError(f"on Flower vectors travel as float32, but the model has {model.params.dtype}")
    params = model.params.clone()
    server = algorithm.init_server(params)
    sent, client = algorithm.broadcast(server), algorithm.init_client(params)
    if not uploads:
        return Templates(server, sent, client, None, model.buffers())
    still = LocalResult(
        delta=torch.zeros_like(params).unsqueeze(0), steps=torch.ones(1, 1), round=1, nominal=1, lr=1.0, rate=1.0
    )
    upload, _ = algorithm.upload(sent, as_rows(client), still, torch.ones(1, 1))
    return Templates(server, sent, client, as_vectors(upload), model.buffers())


def pack_sent(sent: Any, compression: Compression | None, round: int) -> tuple[Any, Arrays]:
    """A broadcast as the clients will receive it, and the arrays in which it travels."""
    if compression is None:
        return sent, to_arrays(sent)
    packed = dict(zip(sent._fields, compression.pack_sent(sent, round), strict=True))
    return compression.down(sent, round), {name: array for name, array in packed.items() if array.size}


def pack_upload(upload: Any, compression: Compression | None, client: int, round: int) -> Arrays:
    """The arrays in which one client's upload, vectors (P,), travels."""
    if compression is None:
        return to_arrays(upload)
    return to_arrays(upload) | {"delta": compression.pack_update(upload.delta, client, round)}


def unpacked(arrays: Arrays, template: Any, compression: Compression | None, names: Container[str]) -> Any:
    """What travelled: the fields that ``template`` has, of which those in ``names`` were packed; DataError as below."""
    found = dict(arrays)
    for name, field in zip(template._fields, template, strict=True):
        if compression is not None and name in names and name in found:
            found[name] = compression.unpack(found[name], field).numpy()
    return from_arrays(found, template)


class ModelOnly(NamedTuple):
    """What is sent to be evaluated."""

    model: Tensor


def as_rows(state: Any) -> Any:
    """Vectors (P,) as rows (1, P)."""
    return type(state)(*(field.unsqueeze(0) for field in state))


def as_vectors(state: Any) -> Any:
    """Rows (1, P) as vectors (P,)."""
    return type(state)(*(field.squeeze(0) for field in state))


def to_arrays(state: Any) -> Arrays:
    """The fields by name. Empty ones are left out: only what the method needs is sent."""
    fields = zip(state._fields, state, strict=True)
    return {name: field.contiguous().numpy() for name, field in fields if field.numel()}


def from_arrays(arrays: Arrays, template: Any) -> Any:
    """The fields that ``template`` has; DataError if one is missing, has another shape or type, or is not finite."""
    fields = dict(zip(template._fields, template, strict=True))
    wanted = {name: field for name, field in fields.items() if field.numel()}
    if arrays.keys() != wanted.keys():
        raise DataError(f"the arrays are not {sorted(wanted)}")  # names from a network are not repeated
    return type(template)(*(_tensor(name, arrays.get(name), field) for name, field in fields.items()))


def split_buffers(arrays: Arrays) -> tuple[Arrays, Arrays]:
    """The arrays of a method, and those of the model's buffers."""
    own = {name.removeprefix(_BUFFER): array for name, array in arrays.items() if name.startswith(_BUFFER)}
    return {name: array for name, array in arrays.items() if not name.startswith(_BUFFER)}, own


def join_buffers(arrays: Arrays, buffers: Buffers) -> Arrays:
    """The arrays of a method and those of the model's buffers, under names that do not meet."""
    return arrays | {_BUFFER + name: array for name, array in to_arrays(buffers).items()}


_BUFFER = "buffer."


def _tensor(name: str, array: NDArray[Any] | None, template: Tensor) -> Tensor:
    if array is None:
        return template.clone()
    kind = str(template.dtype).removeprefix("torch.")
    if array.shape != tuple(template.shape) or str(array.dtype) != kind:
        shapes = f"{array.dtype} {array.shape}, not {kind} {tuple(template.shape)}"
        raise DataError(f"array '{name}' is {shapes}")
    if not np.isfinite(array).all():
        raise DataError(f"array '{name}' has NaN or Inf")
    return torch.from_numpy(array if array.flags.writeable else array.copy())
