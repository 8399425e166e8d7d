"""What was done to samples before a model saw them, so that it can be done to new ones: it travels with the model."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import DataError, RunError
from .formats.files import explained
from .formats.pictures import decode_all
from .formats.tabular import number


@dataclass(frozen=True)
class Preparation:
    """Standardisation by column or channel, (x − mean) / std, and the names that belong to numbers."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    columns: tuple[str, ...] = ()
    """The features of a table in order; empty for images."""
    classes: tuple[str, ...] = ()
    """The names of the classes, where they have any."""
    size: tuple[int, int] | None = None
    """Width and height of images; None for tables."""
    grey: bool = False

    def apply(self, x: Any) -> Tensor:
        """Raw samples as the model takes them."""
        values = torch.as_tensor(x, dtype=torch.float32)
        if values.ndim < 2 or values.shape[1] != len(self.mean):
            found = values.shape[1] if values.ndim > 1 else 0
            raise DataError(f"samples need {len(self.mean)} columns or channels, as in training, not {found}")
        shape = (1, -1, *[1] * (values.ndim - 2))
        return (values - torch.tensor(self.mean).view(shape)) / torch.tensor(self.std).view(shape)

    def read(self, files: Sequence[Path]) -> Tensor:
        """The samples of CSV files, or of picture files, prepared; a table may also have columns that are not used."""
        if not self.size:
            rows = [row for file in files for row in self._rows(file)]
            return self.apply(rows)
        for file in files:
            with explained(file):
                file.stat()
        return self.apply(decode_all(files, lambda i: files[i].open("rb"), self.size, scale=True, grey=self.grey))

    def _rows(self, file: Path) -> list[list[float]]:
        with explained(file), file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            missing = [name for name in self.columns if name not in (reader.fieldnames or ())]
            if missing:
                raise DataError(f"{file} has no column '{missing[0]}', which the model was trained on")
            found = [
                [number(f"{file}, line {reader.line_num}", row[name] or "") for name in self.columns] for row in reader
            ]
        if not found:
            raise DataError(f"{file} has no rows")
        return found

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Preparation:
        fields: dict[str, Any] = {
            name: tuple(each) if isinstance(each, list) else each for name, each in values.items()
        }
        try:
            return cls(**fields)
        except TypeError as error:
            raise RunError(f"the stored preparation is corrupted: {error}") from None
