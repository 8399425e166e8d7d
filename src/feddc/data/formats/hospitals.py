"""The four files of the UCI heart-disease data, prepared as FLamby prepares them (fed_heart_disease).

No header; 14 columns; ``?`` is a missing value. Columns slope, ca and thal are dropped, then every row that lacks a
value; a patient is ill where ``num`` is above 0; ``cp`` and ``restecg`` are one-hot without their first level.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError
from .files import content

_NUMBERS = ("age", "sex", "trestbps", "chol", "fbs", "thalach", "exang", "oldpeak")
COLUMNS = (*_NUMBERS, "cp=2", "cp=3", "cp=4", "restecg=1", "restecg=2")
"""The thirteen features."""
_PLAIN, _CP, _RESTECG, _NUM = (0, 1, 3, 4, 5, 7, 8, 9), 2, 6, 13
_USED = (*_PLAIN, _CP, _RESTECG, _NUM)
TRAIN, SEED = 0.66, 43


class Centre(NamedTuple):
    """The patients of one hospital: features (n, 13), ill or not (n,), and which of them are for training."""

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    train: NDArray[np.int64]
    test: NDArray[np.int64]


def read_centres(paths: Sequence[Path]) -> list[Centre]:
    """One hospital for each file."""
    return [_centre(path) for path in paths]


def _centre(path: Path) -> Centre:
    rows = []
    for number, line in enumerate(content(path).decode("latin-1").splitlines(), 1):
        cells = line.split(",")
        if len(cells) != 14:
            raise DataError(f"{path}, line {number}: {len(cells)} values, but the format has 14")
        used = [cells[column].strip() for column in _USED]
        if "?" in used:
            continue
        try:
            rows.append([float(cell) for cell in used])
        except ValueError:
            raise DataError(f"{path}, line {number}: there is a value that is not a number") from None
    if len(rows) < 4:
        raise DataError(f"{path} has {len(rows)} complete rows: it needs at least 4")
    table = np.array(rows)
    plain, (cp, restecg, num) = table[:, : len(_PLAIN)], table[:, len(_PLAIN) :].T
    hot = [cp == level for level in (2, 3, 4)] + [restecg == level for level in (1, 2)]
    x, y = np.column_stack([plain, *hot]).astype(np.float64), (num > 0).astype(np.int64)
    return Centre(x, y, *_divided(y))


def _divided(y: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """FLamby's split: two thirds to train, stratified where both classes have more than two patients."""
    from sklearn.model_selection import train_test_split

    stratify = y if np.bincount(y, minlength=2).min() > 2 else None
    order = np.arange(len(y))
    train, test = train_test_split(
        order, train_size=TRAIN, test_size=1 - TRAIN, random_state=SEED, shuffle=True, stratify=stratify
    )
    return train, test
