"""A site's samples as they are, and the scale and class names that all sites agree on before they are used.

Sites that standardise by their own mean and deviation, or number their own classes, train on different meanings. Here a
site hands over raw features and class names; counts, means and squared deviations of its training samples travel in the
introduction, are merged by the server, and come back with every question as one scale and one list of names.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..data import Federation
from ..errors import DataError, check, check_number

MOST_CLASSES, LONGEST_NAME = 10_000, 100
Pair = tuple[Any, Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Samples:
    """What ``load_client`` may return instead of ``(x, y)``: x of shape (n, …), y of n class numbers or class names.

    ``test`` is an (x, y) on which this site judges the global model, never trained on. With ``standardise`` every
    column (or channel) is scaled by its mean and deviation over all sites. Class names are numbered over all sites.
    """

    x: Any
    y: Any
    test: Pair | None = None
    standardise: bool = False
    whole: Federation | None = None
    """Where the samples are from a Federation of one client: itself, with all else that it says of its samples."""

    @property
    def named(self) -> bool:
        """Whether y holds names of classes."""
        return np.asarray(self.y).dtype.kind in "UO"

    def names(self) -> list[str]:
        """The names of this site's classes, sorted; empty where they are numbers already."""
        parts = [self.y] if self.test is None else [self.y, self.test[1]]
        return sorted({str(name) for part in parts for name in np.asarray(part).tolist()}) if self.named else []

    def moments(self) -> Moments | None:
        """What the scale is computed from: this site's training samples, column by column."""
        return moments(np.asarray(self.x, dtype=np.float64)) if self.standardise else None

    def prepared(self, agreed: Agreed) -> Federation:
        """The samples on the scale and with the class numbers that were agreed on; its test set is ``test``."""
        if self.whole is not None:
            return self.whole
        own = (agreed.scaled(self.x), agreed.numbered(self.y) if self.named else self.y)
        held = self.test and (agreed.scaled(self.test[0]), agreed.numbered(self.test[1]) if self.named else self.test[1])
        classes = {"classes": len(agreed.classes)} if agreed.classes else {}
        return Federation.from_arrays(*own, sizes=[len(own[1])], test=held, **classes)


class Moments(NamedTuple):
    """Count, mean and sum of squared deviations from it, per column: they can be merged without cancellation."""

    count: int
    mean: Floats
    spread: Floats


def moments(x: Floats) -> Moments:
    """Over all dimensions but the second: images by channel, tables by column."""
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    mean = x.mean(axis=axes, keepdims=True)
    return Moments(x.size // max(mean.size, 1), mean.reshape(-1), ((x - mean) ** 2).sum(axis=axes).reshape(-1))


def merged(parts: Iterable[Moments]) -> Moments:
    """The moments of all samples together (Chan, Golub and LeVeque)."""
    first, *others = parts
    count, mean, spread = first
    for each in others:
        if each.mean.shape != mean.shape:
            raise DataError(f"sites have {mean.size} and {each.mean.size} columns")
        gap, total = each.mean - mean, count + each.count
        mean = mean + gap * (each.count / total)
        spread = spread + each.spread + gap**2 * (count * each.count / total)
        count = total
    return Moments(count, mean, spread)


@dataclass(frozen=True)
class Agreed:
    """One scale and one list of class names for all sites; either may be empty, where nobody asked for it."""

    mean: NDArray[np.float32] = np.zeros(0, np.float32)
    deviation: NDArray[np.float32] = np.zeros(0, np.float32)
    classes: tuple[str, ...] = ()

    def scaled(self, x: Any) -> Any:
        if not self.mean.size:
            return x
        values = torch.as_tensor(np.asarray(x, dtype=np.float32))
        columns = values.shape[1] if values.ndim > 1 else 0
        check(columns == self.mean.size, f"the agreed scale has {self.mean.size} columns, these samples {columns}")
        shape = (1, -1, *[1] * (values.ndim - 2))
        return (values - torch.from_numpy(self.mean).view(shape)) / torch.from_numpy(self.deviation).view(shape)

    def numbered(self, y: Any) -> NDArray[np.int64]:
        number = {name: place for place, name in enumerate(self.classes)}
        unknown = sorted({str(name) for name in np.asarray(y).tolist()} - number.keys())
        if unknown:
            raise DataError(f"class '{unknown[0]}' is not among the {len(number)} classes that the sites agreed on")
        return np.array([number[str(name)] for name in np.asarray(y).tolist()], dtype=np.int64)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """As arrays of a message."""
        return {"agreed.mean": self.mean, "agreed.deviation": self.deviation} if self.mean.size else {}

    def metadata(self) -> dict[str, str]:
        """As words beside a stored model: whoever uses it needs the same scale and numbers."""
        scale = {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()} if self.mean.size else {}
        found = scale | ({"classes": list(self.classes)} if self.classes else {})
        return {"preparation": json.dumps(found)} if found else {}

    @classmethod
    def from_metadata(cls, about: Mapping[str, str]) -> Agreed:
        found = json.loads(about.get("preparation", "{}"))
        scale = (np.array(found.get(key, []), dtype=np.float32) for key in ("mean", "deviation"))
        return cls(*scale, tuple(found.get("classes", ())))


def agree(parts: Iterable[Moments | None], names: Iterable[Iterable[str]]) -> Agreed:
    """The scale of all sites' training samples and the sorted names of all their classes."""
    given = [part for part in parts if part is not None]
    classes = tuple(sorted({name for each in names for name in each}))
    if not given:
        return Agreed(classes=classes)
    count, mean, spread = merged(given)
    deviation = np.sqrt(spread / count)
    deviation[deviation == 0] = 1.0
    return Agreed(mean.astype(np.float32), deviation.astype(np.float32), classes)


def read_table(path: str | Path, label: str = "label", holdout: float = 0.2) -> Samples:
    """A site's CSV file: numeric columns, and ``label`` with class numbers or names; ``holdout`` of it is its test set.

    Features are left as they are: they are standardised by the mean and deviation over all sites.
    """
    check_number("holdout", holdout, 0, 0.9)
    with Path(path).open(newline="", encoding="utf-8-sig") as stream:
        rows = list(csv.DictReader(stream))
    if not rows or label not in rows[0]:
        raise DataError(f"{path} needs a header with a column '{label}', and rows")
    columns = [name for name in rows[0] if name != label]
    try:
        x = np.array([[float(row[name]) for name in columns] for row in rows], dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"{path} has a value that is not a number: {error}") from None
    check(bool(np.isfinite(x).all()), f"{path} has a value that is not finite")
    texts = [str(row[label]).strip() for row in rows]
    y = np.array([int(text) for text in texts]) if all(text.isdecimal() for text in texts) else np.array(texts)
    return hold_out(Samples(x, y, standardise=True), holdout)


def hold_out(samples: Samples, share: float) -> Samples:
    """With that share of the samples as test set, the same ones every time; at least one stays to train on."""
    count = len(samples.y)
    if samples.test is not None or int(share * count) == 0:
        return samples
    order = np.random.default_rng(0).permutation(count)
    held, kept = np.sort(order[: int(share * count)]), np.sort(order[int(share * count) :])
    x, y = samples.x, samples.y
    return Samples(x[kept], y[kept], (x[held], y[held]), samples.standardise)
