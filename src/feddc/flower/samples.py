"""A site's samples as they are, and the scale and class names that all sites agree on before they are used.

Sites that standardise by their own mean and deviation, or number their own classes, train on different meanings. Here a
site hands over raw features and class names; counts, means and squared deviations of its training samples travel in the
introduction, are merged by the server, and come back with every question as one scale and one list of names.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..data import Federation
from ..errors import DataError, check, check_number
from ..tasks import Classification, Task

MOST_CLASSES, LONGEST_NAME = 10_000, 100
AGREED = "agreed."
"""How the arrays of a message begin that hold the scale."""
Pair = tuple[Any, Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Samples:
    """What ``load_client`` may return instead of ``(x, y)``: x of shape (n, …), y of n class numbers or class names.

    With another ``task`` than classification (``feddc.Regression()``, one of your own) y is what that takes.

    ``test`` is an (x, y) on which this site judges the global model, never trained on. With ``standardise`` every
    column (or channel) is scaled by its mean and deviation over all sites. Class names are numbered over all sites.
    """

    x: Any
    y: Any
    test: Pair | None = None
    standardise: bool = False
    task: Task = Classification()
    whole: Federation | None = None
    """Where the samples are from a Federation of one client: itself, with all else that it says of its samples."""

    @property
    def learned(self) -> Task:
        """What is learned from these samples."""
        return self.task if self.whole is None else self.whole.task

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
        held = self.test and (
            agreed.scaled(self.test[0]),
            agreed.numbered(self.test[1]) if self.named else self.test[1],
        )
        classes = len(agreed.classes) or None
        return Federation.from_arrays(*own, sizes=[len(own[1])], test=held, classes=classes, task=self.task)

    def tested(self, agreed: Agreed) -> Federation:
        """A federation whose test set are these samples, prepared alike."""
        x, y = agreed.scaled(self.x), agreed.numbered(self.y) if self.named else self.y
        return Federation.from_arrays(x, y, sizes=[len(y)], test=(x, y), task=self.learned)


def as_samples(data: Any) -> Samples:
    """What ``load_client`` returns: Samples, (x, y), a map-style torch Dataset, or a Federation of one client."""
    if isinstance(data, Samples):
        return data
    if isinstance(data, tuple) and len(data) == 2:
        return Samples(*data)
    found = data if isinstance(data, Federation) else Federation.from_dataset(data, sizes=[len(data)])
    if len(found) != 1:
        raise DataError(f"load_client must give the data of one client, not of {len(found)}")
    return Samples(*found.client_samples(0), found.test, whole=found)


class Moments(NamedTuple):
    """Count, mean and sum of squared deviations from it, per column: they can be merged without cancellation."""

    n: int
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
        gap, total = each.mean - mean, count + each.n
        mean = mean + gap * (each.n / total)
        spread = spread + each.spread + gap**2 * (count * each.n / total)
        count = total
    return Moments(count, mean, spread)


@dataclass(frozen=True)
class Agreed:
    """One scale and one list of class names for all sites; either may be empty, where nobody asked for it."""

    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    classes: tuple[str, ...] = ()

    def scaled(self, x: Any) -> Any:
        if not self.mean:
            return x
        values = torch.as_tensor(np.asarray(x, dtype=np.float32))
        columns = values.shape[1] if values.ndim > 1 else 0
        check(columns == len(self.mean), f"the agreed scale has {len(self.mean)} columns, these samples {columns}")
        shape = (1, -1, *[1] * (values.ndim - 2))
        return (values - torch.tensor(self.mean).view(shape)) / torch.tensor(self.deviation).view(shape)

    def numbered(self, y: Any) -> NDArray[np.int64]:
        number = {name: place for place, name in enumerate(self.classes)}
        unknown = sorted({str(name) for name in np.asarray(y).tolist()} - number.keys())
        if unknown:
            raise DataError(f"class '{unknown[0]}' is not among the {len(number)} classes that the sites agreed on")
        return np.array([number[str(name)] for name in np.asarray(y).tolist()], dtype=np.int64)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The scale as arrays of a message."""
        scale = {f"{AGREED}mean": self.mean, f"{AGREED}deviation": self.deviation} if self.mean else {}
        return {name: np.array(values, dtype=np.float32) for name, values in scale.items()}

    @classmethod
    def from_message(cls, arrays: Mapping[str, NDArray[Any]], classes: Iterable[str]) -> Agreed:
        scale = (arrays.get(AGREED + name, np.zeros(0)) for name in ("mean", "deviation"))
        return cls(*(tuple(each.tolist()) for each in scale), tuple(classes))  # type: ignore[call-arg]

    def metadata(self) -> dict[str, str]:
        """As words beside a stored model: whoever uses it needs the same scale and numbers."""
        return {"preparation": json.dumps(asdict(self))}

    @classmethod
    def from_metadata(cls, about: Mapping[str, str]) -> Agreed:
        found = json.loads(about.get("preparation", "{}"))
        return cls(**{name: tuple(values) for name, values in found.items()})


def agree(parts: Iterable[Moments | None], names: Iterable[Iterable[str]]) -> Agreed:
    """The scale of all sites' training samples and the sorted names of all their classes."""
    given = [part for part in parts if part is not None]
    classes = tuple(sorted({name for each in names for name in each}))
    if not given:
        return Agreed(classes=classes)
    n, mean, spread = merged(given)
    deviation = np.sqrt(spread / n)
    deviation[deviation == 0] = 1.0
    scale = (tuple(each.astype(np.float32).tolist()) for each in (mean, deviation))
    return Agreed(*scale, classes)  # type: ignore[call-arg]


def read_table(path: str | Path, label: str = "label", holdout: float = 0.2, task: Task = Classification()) -> Samples:
    """A site's CSV file: numeric columns, and ``label`` with class numbers or names; ``holdout`` of it is its test set.

    Features are left as they are: they are standardised by the mean and deviation over all sites. With another ``task``
    than classification the labels are numbers, taken as they are.
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
    y = _labels(path, [str(row[label]).strip() for row in rows], task)
    return hold_out(Samples(x, y, standardise=True, task=task), holdout)


def _labels(path: str | Path, texts: list[str], task: Task) -> NDArray[Any]:
    if isinstance(task, Classification):
        return np.array([int(text) for text in texts]) if all(text.isdecimal() for text in texts) else np.array(texts)
    try:
        return np.array([float(text) for text in texts], dtype=np.float32)
    except ValueError as error:
        raise DataError(f"{path} has a label that is not a number: {error}") from None


def hold_out(samples: Samples, share: float) -> Samples:
    """With that share of the samples as test set, the same ones every time; at least one stays to train on."""
    count = len(samples.y)
    if samples.test is not None or int(share * count) == 0:
        return samples
    order = np.random.default_rng(0).permutation(count)
    held, kept = np.sort(order[: int(share * count)]), np.sort(order[int(share * count) :])
    x, y = samples.x, samples.y
    return Samples(x[kept], y[kept], (x[held], y[held]), samples.standardise, samples.task)
