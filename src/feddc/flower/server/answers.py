"""What the server lets in: an answer is checked when it arrives, kept on disk, and added up in the order of clients.

So the order of a sum is that of a simulation whoever was first, and the server holds one client's answer in memory.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ...engine.compress import Compression
from ...engine.screening import bad_rows
from ...errors import DataError
from ...tasks import Score
from ..judging import Measures
from ..packets import Packet
from ..samples import LONGEST_NAME, MOST_CLASSES, Moments
from ..states import Arrays, Templates, as_rows, from_arrays, split_buffers, unpacked
from .asking import RefusedError

LARGEST_RATIO = 100.0
"""An update this many times longer than the median one of its round is refused."""
LARGEST_STATISTIC = 1e15
MEASURE = re.compile(r"[A-Za-z][A-Za-z0-9_.@%/ -]{0,40}")
"""The name of a measure."""


class Introduction(NamedTuple):
    """What a client says of itself."""

    samples: int
    held_out: int
    moments: Moments | None
    names: tuple[str, ...]
    score: Score
    """By what its task judges a model."""


def introduction(client: int, answer: Packet, parameters: int, most_samples: int) -> Introduction:
    """The checked introduction of a client; RefusedError if it cannot take part."""
    config = answer.config
    samples = count(f"client {client} says that it has %s samples", config.get("samples"), most_samples)
    if config.get("parameters") != parameters:
        found = number_or_none(config.get("parameters"))
        raise RefusedError(f"the model of client {client} has {found} parameters, the server's {parameters}")
    names = config.get("classes", [])
    good = isinstance(names, list) and len(names) <= MOST_CLASSES
    if not good or not all(isinstance(name, str) and 0 < len(name) <= LONGEST_NAME for name in names):
        raise RefusedError(f"client {client} has class names that cannot be used")
    held_out = config.get("held_out")
    held_out = held_out if isinstance(held_out, int) else 0
    score, higher = config.get("score"), config.get("higher")
    if not isinstance(score, str) or not MEASURE.fullmatch(score) or not isinstance(higher, bool):
        raise RefusedError(f"client {client} does not say by what it judges a model")
    means = _moments(client, answer.arrays, samples)
    return Introduction(samples, held_out, means, tuple(names), Score(score, higher))


def _moments(client: int, arrays: Arrays, samples: int) -> Moments | None:
    if not arrays:
        return None
    mean, spread = arrays.get("moments.mean"), arrays.get("moments.spread")
    good = mean is not None and spread is not None and len(arrays) == 2 and mean.shape == spread.shape
    if (
        not good
        or mean is None
        or spread is None
        or mean.ndim != 1
        or {str(mean.dtype), str(spread.dtype)} != {"float64"}
    ):
        raise RefusedError(f"client {client} sends statistics that cannot be read")
    if not (np.abs(mean) < LARGEST_STATISTIC).all() or not ((spread >= 0) & (spread < LARGEST_STATISTIC**2)).all():
        raise RefusedError(f"client {client} sends statistics that are not finite or absurdly large")
    return Moments(samples, mean, spread)


def count(sentence: str, value: Any, most: int) -> int:
    """A whole number from 1 to ``most``; RefusedError with the sentence otherwise."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise RefusedError(f"{sentence % number_or_none(value)}; from 1 to {most} are possible here")
    return value


def number_or_none(value: Any) -> int | float | None:
    """A number from a client for a log: text is not repeated."""
    return value if isinstance(value, int | float) else None


def measures(client: int, round: int, experiment: str, answer: Packet | RefusedError) -> Measures:
    """What a site measured on its held-out samples; empty where it holds out none."""
    if isinstance(answer, RefusedError):
        raise answer
    check_for(answer, experiment, round, client)
    found = {key.removeprefix("measure."): value for key, value in answer.config.items() if key.startswith("measure.")}
    if not all(_is_number(value) and MEASURE.fullmatch(name) for name, value in found.items()):
        raise RefusedError("its measures cannot be read")
    return {name: float(value) for name, value in found.items()}


def check_for(answer: Packet, experiment: str, round: int, client: int) -> None:
    """Refuse an answer to another question."""
    for key, value in {"experiment": experiment, "round": round, "client": client}.items():
        if answer.config.get(key) != value:
            raise RefusedError(f"it is for another {key} than {value!r}")


class Update(NamedTuple):
    """A client's answer to the question of a round, checked; its arrays are kept apart."""

    client: int
    round: int
    norm: float
    figures: dict[str, float]
    lost: bool


class Answers:
    """The answers of one round."""

    def __init__(self, folder: Path, experiment: str, shape: Templates, compression: Compression | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = tempfile.TemporaryDirectory(prefix="answers-", dir=folder)
        self.experiment, self.shape, self.compression = experiment, shape, compression
        self.updates: dict[int, Update] = {}
        self._names: dict[int, list[str]] = {}  # of the arrays of each answer, in the order of their files

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def take(self, client: int, round: int, answer: Packet | RefusedError, samples: int) -> Update:
        """Check an answer and keep it; RefusedError with the reason if it is not what was asked for."""
        if isinstance(answer, RefusedError):
            raise answer
        check_for(answer, self.experiment, round, client)
        if answer.config.get("samples") != samples:
            raise RefusedError(f"it was computed with another number of samples than {samples}")
        upload, _ = self._read(answer.arrays)
        first, *others = as_rows(upload)
        for bad in bad_rows([client], first, others):  # absurdly large, as a simulation would refuse it
            raise RefusedError(bad.reason)
        norm = math.hypot(*(float(torch.linalg.vector_norm(field, dtype=torch.float64)) for field in upload))
        figures = {key: float(value) for key, value in answer.config.items() if key in FIGURES and _is_number(value)}
        self._names[client] = list(answer.arrays)
        for path, array in zip(self._paths(client), answer.arrays.values(), strict=True):
            np.save(path, array, allow_pickle=False)
        self.updates[client] = Update(client, round, norm, figures, answer.config.get("lost") is True)
        return self.updates[client]

    def outliers(self, usual: float | None) -> dict[int, str]:
        """Updates that are absurdly long beside the others', or beside the ``usual`` length where there are few."""
        norms = [update.norm for update in self.updates.values()]
        middle = float(np.median(norms)) if len(norms) > 2 else usual
        if not middle:
            return {}
        high = LARGEST_RATIO * middle
        return {
            client: f"its length is {update.norm:.3g}, more than {LARGEST_RATIO:g} times the usual {middle:.3g}"
            for client, update in self.updates.items()
            if update.norm > high
        }

    def read(self, client: int) -> tuple[Any, Any]:
        """A client's upload and buffers."""
        stored = (np.load(path, mmap_mode="c", allow_pickle=False) for path in self._paths(client))  # nothing is copied
        return self._read(dict(zip(self._names[client], stored, strict=True)))

    def _read(self, arrays: Mapping[str, Any]) -> tuple[Any, Any]:
        vectors, own = split_buffers(dict(arrays))
        try:
            upload = unpacked(vectors, self.shape.upload, self.compression, ("delta",))
            return upload, from_arrays(own, self.shape.buffers)
        except DataError as error:
            raise RefusedError(str(error)) from None

    def _paths(self, client: int) -> list[Path]:
        return [Path(self._folder.name) / f"{client}-{place}.npy" for place in range(len(self._names[client]))]


FIGURES = ("samples", "drift", "update", "seconds")
"""Numbers that a client says of its training: they are recorded, and nothing is computed from them."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and abs(value) < LARGEST_STATISTIC
