"""A client's state where the server decides what it uses of an update only after it has seen all of them.

What a client trained with waits on its disk. The next question says what was used of its update, and only then is its
state computed, from that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...algorithms import Algorithm
from ...errors import DataError, RunError
from ...trust.robust import Filter
from ...types import LocalResult
from ..states import Templates, as_vectors
from .memory import ClientMemory

FILTER = "filter."
"""How the settings and arrays of a question begin that say what was used of a client's last update."""
FACTOR = FILTER + "factor"
_SHARED = ("centre", "low", "high", "shift")


def filter_message(found: Filter, row: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What one client is told: settings and arrays of its next question."""
    shared = {FILTER + name: getattr(found, name) for name in _SHARED}
    arrays = {name: vector.contiguous().numpy() for name, vector in shared.items() if vector is not None}
    return {FACTOR: float(found.factor[row])}, arrays


def filter_from(config: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], parameters: int) -> Filter | None:
    """The inverse, at the client; None where the question says nothing of it."""
    if FACTOR not in config:
        return None
    found: dict[str, Any] = {}
    for name in _SHARED:
        array = arrays.get(FILTER + name)
        if array is not None and (array.shape != (parameters,) or not np.isfinite(array).all()):
            raise DataError(f"the array '{FILTER + name}' does not fit the model")
        found[name] = None if array is None else torch.from_numpy(np.array(array, dtype=np.float32))
    return Filter(torch.tensor([[float(config[FACTOR])]]), **found)


def wait(memory: ClientMemory, round: int, sent: Any, rows: Any, local: LocalResult, weight: torch.Tensor) -> None:
    """Keep all that the state after ``round`` will be computed from."""
    tensors = {"delta": local.delta, "steps": local.steps, "weight": weight}
    tensors |= {f"sent.{name}": field for name, field in sent._asdict().items()}
    tensors |= {f"client.{name}": field for name, field in rows._asdict().items()}
    plan = {name: getattr(local, name) for name in ("round", "nominal", "lr", "rate")}
    memory.wait(round, tensors, {"plan": json.dumps(plan)})


def settle(memory: ClientMemory, round: int, algorithm: Algorithm, shape: Templates, used: Filter) -> None:
    """Compute the state after ``round`` from what the server used of its update, if that is still to be done."""
    try:
        tensors, about = memory.waiting(round)
        plan = json.loads(about["plan"])
        sent = type(shape.sent)(*(tensors[f"sent.{name}"] for name in shape.sent._fields))
        rows = type(shape.client)(*(tensors[f"client.{name}"] for name in shape.client._fields))
        local = LocalResult(delta=used.used(tensors["delta"]), steps=tensors["steps"], **plan)
    except (RunError, KeyError, ValueError, TypeError):
        return  # it was settled before, or is lost, which ``recall`` will tell
    _, after = algorithm.upload(sent, rows, local, tensors["weight"])
    memory.keep(round, as_vectors(after))
