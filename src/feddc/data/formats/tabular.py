"""One CSV file to arrays, with errors that name the file and line."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError


class Sheet(NamedTuple):
    """The rows of a CSV file: features (n, columns), class numbers or numbers to predict (n,), and the header."""

    x: NDArray[np.float32]
    y: NDArray[Any]
    columns: list[str]


def read_rows(
    path: Path, label: str, classes: int | None, columns: list[str] | None, *, numeric: bool = False
) -> Sheet:
    """Read a CSV file with a header; ``columns`` is the header that it must have, if others came before it.

    With ``numeric`` the label is any number, not a class.
    """
    x: list[list[float]] = []
    y: list[float] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            header = next(reader, [])
            if label not in header:
                raise DataError(f"{path} has no column '{label}': its columns are {', '.join(header) or 'none'}")
            if columns is not None and header != columns:
                raise DataError(f"{path} has other columns than the files before it: {', '.join(header)}")
            at = header.index(label)
            for row in reader:
                if row:  # an empty line at the end is no sample
                    where = f"{path}, line {reader.line_num}"
                    if len(row) != len(header):
                        raise DataError(f"{where}: {len(row)} values, but the header has {len(header)} columns")
                    value = row.pop(at)
                    y.append(number(where, value) if numeric else _label(where, value, classes))
                    x.append([number(where, value) for value in row])
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a CSV file: {error}") from error
    if len(header) < 2 or not y:
        raise DataError(f"{path} has no {'rows' if len(header) > 1 else 'feature columns'}")
    return Sheet(np.array(x, dtype=np.float32), np.array(y), header)


def _label(where: str, text: str, classes: int | None) -> int:
    high = math.inf if classes is None else classes
    if not text.strip().isdecimal() or int(text) >= high:
        wanted = "a whole number, 0 or more" if classes is None else f"a class number in 0..{classes - 1}"
        raise DataError(f"{where}: the label '{text}' is not {wanted}")
    return int(text)


def number(where: str, text: str) -> float:
    """A finite number; DataError, which says where, if the text is none."""
    try:
        value = float(text)
    except ValueError:
        raise DataError(f"{where}: '{text}' is not a number") from None
    if not math.isfinite(value):
        raise DataError(f"{where}: '{text}' is not a finite number")
    return value
