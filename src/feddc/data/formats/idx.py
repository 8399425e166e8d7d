"""The idx format of MNIST, Fashion-MNIST and EMNIST: a magic number, the sizes, then the bytes; raw or gzipped."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .files import broken, content

Part = tuple[NDArray[np.uint8], NDArray[np.int64]]


class StoredImages(NamedTuple):
    """A data set as it is stored on disk: images (n, channels, height, width) of bytes, and class numbers from 0."""

    x: NDArray[np.uint8]
    y: NDArray[np.int64]
    test_x: NDArray[np.uint8]
    test_y: NDArray[np.int64]


def read_idx(path: Path, dimensions: int, kind: Literal["bytes", "integers"] = "bytes") -> NDArray[Any]:
    """An idx file of unsigned bytes, or of big-endian 32-bit integers, with that many dimensions."""
    data, start = content(path), 4 + 4 * dimensions
    code, dtype = (0x08, np.dtype(np.uint8)) if kind == "bytes" else (0x0C, np.dtype(">i4"))
    if len(data) < start or data[:4] != bytes([0, 0, code, dimensions]):
        raise broken(path, f"it does not start as an idx file of {kind} in {dimensions} dimensions does")
    shape, held = struct.unpack(f">{dimensions}I", data[4:start]), (len(data) - start) / dtype.itemsize
    if held != np.prod(shape, dtype=object):
        raise broken(path, f"its header promises {' × '.join(map(str, shape))} {kind}, {held:.12g} follow")
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


def read_int_table(path: Path) -> NDArray[np.int64]:
    """A table of integers, as QMNIST's labels are."""
    return read_idx(path, 2, "integers").astype(np.int64)


def read_mnist(paths: Sequence[Path]) -> StoredImages:
    """MNIST and its like, 28×28 grey, ten classes: training images and labels, test images and labels."""
    images, labels, test_images, test_labels = paths
    return StoredImages(*_pair(images, labels, range(10)), *_pair(test_images, test_labels, range(10)))


def read_emnist_letters(paths: Sequence[Path]) -> StoredImages:
    """The letters A to J of EMNIST Letters, as classes 0 to 9, turned upright (EMNIST stores its images transposed)."""
    images, labels, test_images, test_labels = paths
    return StoredImages(*_first_ten(images, labels), *_first_ten(test_images, test_labels))


def _first_ten(images: Path, classes: Path) -> Part:
    x, y = _pair(images, classes, range(1, 27))
    chosen = y <= 10
    return x[chosen].transpose(0, 1, 3, 2), y[chosen] - 1


def _pair(images: Path, classes: Path, labels: range) -> Part:
    x, y = read_idx(images, 3), read_idx(classes, 1)
    if x.shape[1:] != (28, 28):
        raise broken(images, f"its images are {x.shape[1]}×{x.shape[2]}, not 28×28")
    if len(x) != len(y):
        raise broken(classes, f"it has {len(y)} labels for {len(x)} images")
    if len(y) and not labels[0] <= y.min() <= y.max() <= labels[-1]:
        raise broken(classes, f"its labels go from {y.min()} to {y.max()}, outside {labels[0]}..{labels[-1]}")
    return x[:, None], y.astype(np.int64)
