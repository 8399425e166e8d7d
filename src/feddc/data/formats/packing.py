"""CIFAR-100 from folders of pictures into the official layout, where the official file cannot be had."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

from ...errors import DataError, check
from ...storage.atomic import write_whole
from .files import explained
from .pictures import decode_all

CLASSES = 100
EACH = {"train": 500, "test": 100}
"""How many pictures of each class CIFAR-100 has."""


def pack_cifar100(folder: Path, root: Path, each: dict[str, int] | None = None) -> Path:
    """Pack train/CLASS/*.png and test/CLASS/*.png of ``folder`` into cifar-100-python in ``root``.

    Labels are the official ones, which follow the alphabet. The order of the pictures is that of their file names: the
    official order is lost, and with it the official checksums and the clients that a seed would give.
    """
    target, numbers = root / "cifar-100-python", EACH if each is None else each
    with explained(folder):
        parts = {name: _files(folder / name, count) for name, count in numbers.items()}
    known = [sorted(classes) for classes in parts.values()]
    check(known[0] == known[1], f"{folder / 'train'} and {folder / 'test'} have different classes")
    with explained(target):
        check(not target.exists(), f"{target} exists already: nothing was overwritten")
        packed = {}
        for name, classes in parts.items():
            files = [file for label in known[0] for file in classes[label]]
            pixels = decode_all(files, lambda i, files=files: files[i].open("rb"), (32, 32))  # type: ignore[misc]
            labels = [i for i, label in enumerate(known[0]) for _ in classes[label]]
            content = {b"data": np.ascontiguousarray(pixels.reshape(len(files), -1)), b"fine_labels": labels}
            packed[name] = pickle.dumps(content, protocol=2)
        target.mkdir(parents=True)
        for name, data in packed.items():
            write_whole(target / name, data)
    return target


def _files(folder: Path, count: int) -> dict[str, list[Path]]:
    classes = {each.name: sorted(each.glob("*.png")) for each in folder.iterdir() if each.is_dir()}
    if len(classes) != CLASSES:
        raise DataError(f"{folder} has {len(classes)} folders, not one for each of {CLASSES} classes")
    for name, files in sorted(classes.items()):
        if len(files) != count:
            raise DataError(f"{folder / name} has {len(files)} PNG files, not {count}")
    return classes
