"""Picture files to one array of bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...errors import DataError

Size = tuple[int, int]


def decode_all(
    names: Sequence[Path], open_: Callable[[int], BinaryIO], size: Size, *, scale: bool = False, grey: bool = False
) -> NDArray[np.uint8]:
    """Pictures as (n, channels, height, width): three channels, or one if ``grey``; ``size`` is (width, height).

    ``open_(i)`` gives the i-th file, ``names`` what errors call it. A picture of another size is scaled or refused.
    """

    def load(i: int) -> NDArray[np.uint8]:
        with open_(i) as stream:
            return _decode(stream, names[i], size, scale, "L" if grey else "RGB")

    x = np.empty((len(names), 1 if grey else 3, size[1], size[0]), dtype=np.uint8)
    with ThreadPoolExecutor() as pool:  # decoding releases the interpreter lock
        for i, picture in enumerate(pool.map(load, range(len(names)))):
            x[i] = picture
    return x


def picture_size(path: Path) -> Size:
    """Width and height."""
    with path.open("rb") as stream, _open(stream, path) as picture:
        return picture.size


def _decode(stream: BinaryIO, name: Path, size: Size, scale: bool, mode: str) -> NDArray[np.uint8]:
    with _open(stream, name) as picture:
        # The header is enough to refuse a wrong size: a picture that claims to be huge is never unpacked.
        if picture.size != size and not scale:
            found, wanted = ("×".join(map(str, each)) for each in (picture.size, size))
            raise DataError(f"{name} is {found} pixels, not {wanted}: all images need one size")
        try:
            pixels = picture.convert(mode)
        except (OSError, SyntaxError, ValueError) as error:
            raise DataError(f"{name} cannot be read as an image: {error}") from error
        if pixels.size != size:
            pixels = pixels.resize(size, Image.Resampling.BILINEAR)
        return np.asarray(pixels).reshape(size[1], size[0], -1).transpose(2, 0, 1)  # (channels, height, width)


def _open(stream: BinaryIO, name: Path) -> Image.Image:
    try:
        return Image.open(stream)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(
            f"{name} cannot be read as an image: it is damaged, or of a format unknown to Pillow"
        ) from error
