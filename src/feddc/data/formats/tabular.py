"""One CSV file to arrays, with errors that name the file and line."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError
from ...specs import is_number

Labels: TypeAlias = Literal["classes", "names", "numbers"]
"""What the label column holds: class numbers from 0, class names, or numbers to predict."""


class Sheet(NamedTuple):
    """The rows of a CSV file: features (n, columns), labels (n,), and the header."""

    x: NDArray[np.float32]
    y: NDArray[Any]
    columns: list[str]
    labels: Labels


def read_rows(
    path: Path, label: str, classes: int | None, columns: list[str] | None, labels: Labels | None = None
) -> Sheet:
    """Read a CSV file with a header; ``columns`` is the header that it must have, if others came before it.

    Where ``labels`` is not given, the first label decides whether they are class numbers or names.
    """
    x: list[list[float]] = []
    y: list[Any] = []
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
                    value = row.pop(at).strip()
                    labels = labels or (
                        "names" if value and not value.isdecimal() and not is_number(value) else "classes"
                    )
                    y.append(_label(where, value, labels, classes))
                    x.append([number(where, value) for value in row])
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a CSV file: {error}") from error
    if len(header) < 2 or not y:
        raise DataError(f"{path} has no {'rows' if len(header) > 1 else 'feature columns'}")
    return Sheet(np.array(x, dtype=np.float32), np.array(y), header, labels or "classes")


def _label(where: str, text: str, labels: Labels, classes: int | None) -> float | str:
    if labels == "numbers":
        return number(where, text)
    if labels == "names":
        if not text:
            raise DataError(f"{where}: the label is empty, where others are class names")
        return text
    high = math.inf if classes is None else classes
    if not text.isdecimal() or int(text) >= high:
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
