"""Federations that nature split: hospitals, writers, roles of a play."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import DataError, check, check_count
from ..tasks import MultiLabel, NextToken
from .federation import Federation
from .fetch.catalogue import CATALOGUE
from .fetch.folder import data_folder
from .fetch.present import require
from .formats.hospitals import Centre
from .formats.idx import StoredImages
from .formats.plays import ALPHABET, WINDOW, windows
from .images import pixels_of
from .request import Request

Floats: TypeAlias = NDArray[np.float64]
HOSPITALS = ("Cleveland", "Hungary", "Switzerland", "VA Long Beach")


def heart_disease(request: Request, test: Literal["own", "pooled"] = "own") -> Federation:
    """Heart disease: 740 patients of four hospitals, 13 features, ill or not; FLamby's preparation and split.

    Features are standardised by each hospital's own training patients; every hospital keeps a third of its patients to
    judge the model on. The server's test set is all of those: on each hospital's own scale, or with ``test=pooled`` on
    the scale of all training patients, which is FLamby's "Pooled Test".
    """
    _no_split("heart-disease", request)
    found = require(CATALOGUE["heart-disease"], data_folder(request.data_dir))
    centres: list[Centre] = found.layout.read(found.paths)
    scales = [_scale(centre.x[centre.train]) for centre in centres]
    parts = [_scaled(centre.x, *scale) for centre, scale in zip(centres, scales, strict=True)]
    pooled = _scale(np.concatenate([centre.x[centre.train] for centre in centres]))
    tested = [
        (part if test == "own" else _scaled(centre.x, *pooled))[centre.test]
        for centre, part in zip(centres, parts, strict=True)
    ]
    starts = np.cumsum([0, *(len(centre.y) for centre in centres[:-1])])
    return Federation.from_arrays(
        np.concatenate(parts),
        np.concatenate([centre.y for centre in centres]),
        clients=[start + centre.train for start, centre in zip(starts, centres, strict=True)],
        holdout=[start + centre.test for start, centre in zip(starts, centres, strict=True)],
        test=(np.concatenate(tested), np.concatenate([centre.y[centre.test] for centre in centres])),
        name="heart-disease",
        task=MultiLabel(score="accuracy"),
    )


def mnist_writers(request: Request, sample: bool = False) -> Federation:
    """MNIST by writer: 539 people, a client each; the 10000 test digits are by 297 others.

    Who wrote what is in QMNIST's labels. Needs mnist and mnist-writers in the data folder.
    """
    _no_split("mnist-writers", request)
    root = data_folder(request.data_dir)
    data, found = CATALOGUE["mnist"], require(CATALOGUE["mnist-writers"], root)
    digits = require(data, root)
    arrays: StoredImages = digits.layout.read(digits.paths)
    table = found.layout.read(found.paths)[: len(arrays.y)]
    if len(table) != len(arrays.y) or not (table[:, 0] == arrays.y).all():
        raise DataError(f"{found.paths[0]} is not about the digits in {digits.folder}: their classes differ")
    if len(arrays.y) != data.train and not sample:
        raise DataError(
            f"{digits.folder} holds {len(arrays.y)} digits, not {data.train}: write mnist-writers:sample=true"
        )
    writers = table[:, 2]
    whole = Federation.from_arrays(
        arrays.x,
        torch.from_numpy(arrays.y),
        clients=[np.flatnonzero(writers == writer) for writer in np.unique(writers)],
        test=(arrays.test_x, torch.from_numpy(arrays.test_y)),
        classes=data.classes,
        name="mnist-writers",
    )
    return replace(whole, pixels=pixels_of(data, arrays))


def shakespeare(request: Request, train: int = 2000, test: int = 400) -> Federation:
    """Shakespeare by role: eight plays, a client for each role, the next of 80 characters; LEAF's samples.

    A role takes part if it says enough for ``train`` samples, the 79 after them, which overlap them and are left out,
    and ``test`` samples, on which it judges the model. The server's test set is all of those together.
    """
    _no_split("shakespeare", request)
    check_count("train", train)
    check_count("test", test)
    found = require(CATALOGUE["shakespeare"], data_folder(request.data_dir))
    roles: dict[tuple[str, str], str] = found.layout.read(found.paths)
    needed = train + WINDOW - 1 + test
    long = [text for _, text in sorted(roles.items()) if len(text) - WINDOW >= needed]
    if not long:
        raise DataError(f"no role has {needed} samples: ask for fewer, such as shakespeare:train=500:test=100")
    xs, ys = zip(*(windows(text[: needed + WINDOW]) for text in long), strict=True)
    x, y, starts = np.concatenate(xs), np.concatenate(ys), needed * np.arange(len(long))
    held = [start + np.arange(needed - test, needed) for start in starts]
    together = np.concatenate(held)
    return Federation.from_arrays(
        x,
        y,
        clients=[start + np.arange(train) for start in starts],
        holdout=held,
        test=(x[together], y[together]),
        classes=len(ALPHABET),
        name="shakespeare",
        task=NextToken(),
    )


def _no_split(name: str, request: Request) -> None:
    check(request.split is None, f"{name} comes with its clients: leave the split '{request.split}' out")


def _scale(x: Floats) -> tuple[Floats, Floats]:
    return x.mean(axis=0), x.std(axis=0, ddof=1)


def _scaled(x: Floats, mean: Floats, std: Floats) -> Floats:
    scaled: Floats = (x - mean) / (std + 1e-9)
    return scaled
