"""CIFAR-10 and CIFAR-100, from the binary version or from the Python pickles.

A pickle is a program, and a downloaded one is not to be trusted: the unpickler here builds dictionaries, lists, numbers
and text, knows the four names that these files use, and gives each of them a harmless stand-in.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .files import broken, content
from .idx import Part, StoredImages

PIXELS = 3 * 32 * 32


def read_cifar10_binary(paths: Sequence[Path]) -> StoredImages:
    """cifar-10-batches-bin: records of one label byte and 3072 pixel bytes (red, green, blue planes); the test last."""
    return _join([_binary(path) for path in paths])


def read_cifar10_pickles(paths: Sequence[Path]) -> StoredImages:
    """cifar-10-batches-py, as torchvision unpacks it; the test batch last."""
    return _join([_pickled(path, "labels", 10) for path in paths])


def read_cifar100_pickles(paths: Sequence[Path]) -> StoredImages:
    """cifar-100-python with its 100 fine labels, as torchvision unpacks it; the test last."""
    return _join([_pickled(path, "fine_labels", 100) for path in paths])


def _binary(path: Path) -> Part:
    data = np.frombuffer(content(path), dtype=np.uint8)
    if len(data) == 0 or len(data) % (1 + PIXELS):
        raise broken(path, f"its {len(data)} bytes are not a whole number of records of {1 + PIXELS}")
    records = data.reshape(-1, 1 + PIXELS)
    return _checked(path, records[:, 1:], records[:, 0], 10)


def _pickled(path: Path, labels: str, classes: int) -> Part:
    data = content(path)
    try:
        found = _Unpickler(io.BytesIO(data), encoding="latin1").load()
        entries = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in found.items()}
        x = entries["data"].array()
        y = np.array(entries[labels])
    except Exception as error:  # bytes from anywhere can make an unpickler raise anything; all of it means the same
        raise broken(path, f"not a CIFAR pickle: {error!r}") from error
    return _checked(path, x, y, classes)


def _checked(path: Path, x: NDArray[np.uint8], y: NDArray[Any], classes: int) -> Part:
    if x.ndim != 2 or x.shape[1] != PIXELS or y.shape != (len(x),) or not np.issubdtype(y.dtype, np.integer):
        raise broken(path, f"it holds arrays of shape {x.shape} and {y.shape}, not images of {PIXELS} bytes and labels")
    if len(y) == 0 or y.min() < 0 or y.max() >= classes:
        raise broken(path, f"its labels are not all in 0..{classes - 1}")
    return x.reshape(-1, 3, 32, 32), y.astype(np.int64)


def _join(parts: list[Part]) -> StoredImages:
    x, y = (np.concatenate(each) for each in zip(*parts[:-1], strict=True))
    return StoredImages(x, y, *parts[-1])


class _Array:
    """Stands in for numpy's array while unpickling: keeps the state, and reads it only as a plain array of bytes."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def array(self) -> NDArray[np.uint8]:
        _, shape, dtype, fortran, raw = self.state
        if dtype.code not in ("u1", "|u1") or fortran:
            raise ValueError(f"an array of type {dtype.code}, not of bytes in rows")
        data = raw.encode("latin1") if isinstance(raw, str) else raw
        return np.frombuffer(data, dtype=np.uint8).reshape(shape)


class _Dtype:
    """Stands in for numpy's dtype: keeps its code."""

    def __init__(self, code: str, *_: Any) -> None:
        self.code = code

    def __setstate__(self, state: Any) -> None:
        """The byte order, which single bytes do not have."""


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _encode(text: str, _encoding: str) -> bytes:
    """How Python 3 writes bytes into old pickles: as latin-1 text."""
    return text.encode("latin1")


_STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is refused")
        return _STAND_INS[module, name]
