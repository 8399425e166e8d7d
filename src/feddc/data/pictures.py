"""One picture file to one array."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from ..errors import DataError


def decode(stream: IO[bytes], name: Path, width: int, height: int) -> NDArray[np.uint8]:
    """A picture as RGB bytes (3, height, width), grey ones too; refused by ``name`` if unreadable or misshapen."""
    try:
        with Image.open(stream) as picture:
            # The header is enough to refuse a wrong size: a picture that claims to be huge is never unpacked.
            if picture.size != (width, height):
                found = "×".join(map(str, picture.size))
                raise DataError(f"{name} is {found} pixels, not {width}×{height}: all images need one size")
            return np.asarray(picture.convert("RGB")).transpose(2, 0, 1)  # (3, height, width)
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{name} cannot be read as an image: {error}") from error
