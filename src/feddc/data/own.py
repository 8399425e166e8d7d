"""Your own data: a folder of images, or CSV files, with the clients that they come with or divided by a split.

docs/own-data.md shows the layouts. Both keep a part for the test unless a test set is given.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from ..errors import DataError, check, check_count, check_number
from ..tasks import Classification, Regression, Task
from .augment import Augment
from .federation import Federation
from .formats.files import explained
from .formats.pictures import decode_all, picture_size
from .formats.tabular import read_rows
from .partition import Indices
from .preparation import Preparation
from .request import Request

TEST = "test"


def from_image_folder(
    path: str | Path,
    *,
    size: int | None = None,
    grey: bool = False,
    holdout: float = 0.2,
    clients: int = 20,
    split: str | None = None,
    seed: int = 0,
    augment: Augment | None = None,
) -> Federation:
    """A federation from CLIENT/CLASS/image files in ``path``, or CLASS/image files to be split among ``clients``.

    ``size`` scales every image to size × size; without it all must have the same size. ``grey`` gives one channel
    instead of three. A folder named test (CLASS/image) is the test set; without it, the share ``holdout`` of every
    client's images is. Pixels are standardised by the training images' mean and deviation. ``augment`` changes a batch
    of training images at random, with the generator that it is given, such as ``feddc.data.augment.flip_and_crop``.
    """
    return images(Request(clients, split, seed), str(path), size, grey, holdout).augmented(augment)


def from_csv(
    path: str | Path,
    *,
    label: str = "label",
    classes: int | None = None,
    holdout: float = 0.2,
    clients: int = 20,
    split: str | None = None,
    seed: int = 0,
    task: Literal["classification", "regression"] = "classification",
    augment: Augment | None = None,
) -> Federation:
    """A federation from a folder with one CSV file per client, or from one CSV file to be split among ``clients``.

    The column ``label`` holds class numbers from 0, or class names, or with ``task="regression"`` the numbers to
    predict. All other columns are numeric features, which are standardised by their training mean and deviation. A
    file test.csv in the folder is the test set; without it, the share ``holdout`` of every client's rows is.
    ``augment`` changes a batch of standardised training rows at random, with the generator that it is given.
    """
    return csv(Request(clients, split, seed), str(path), label, classes, holdout, task).augmented(augment)


def images(
    request: Request, path: str, size: int | None = None, grey: bool = False, holdout: float = 0.2
) -> Federation:
    """Your own images: folders CLIENT/CLASS, or just CLASS and a split (images:path=FOLDER); see docs/own-data.md."""
    check_count("size", size, optional=True)
    root = Path(path)
    with explained(root):
        parts = _parts(root)
        test = parts.pop(TEST, None)
        names = sorted({name for part in parts.values() for name in part})
        files = [file for part in parts.values() for found in part.values() for file in found]
        x = _pictures(files, files[0], size, grey)
        y = _labels(parts.values(), names, root)
        held_out = None
        if test is not None:
            held = [file for found in test.values() for file in found]
            held_out = (_pictures(held, files[0], size, grey), _labels([test], names, root / TEST))
    owners = np.repeat(np.arange(len(parts)), [sum(map(len, part.values())) for part in parts.values()])
    wanted = (size, size) if size else picture_size(files[0])
    about = Preparation((), (), classes=tuple(names), size=wanted, grey=grey)
    return _federation(request, root, x, y, owners, held_out, len(names), holdout, about)


def csv(
    request: Request,
    path: str,
    label: str = "label",
    classes: int | None = None,
    holdout: float = 0.2,
    task: Literal["classification", "regression"] = "classification",
) -> Federation:
    """Your own tables: one CSV file per client, or one file and a split (csv:path=FOLDER); see docs/own-data.md."""
    check_count("classes", classes, 2, optional=True)
    numeric = task == "regression"
    root = Path(path)
    if not root.exists():
        raise DataError(f"there is no file or folder {root}")
    with explained(root):
        files = [root] if root.is_file() else sorted(root.glob("*.csv"))
        train = [file for file in files if root.is_file() or file.stem != TEST]
        if not train:
            raise DataError(f"{root} has no CSV files: it needs one for every client")
        first = read_rows(train[0], label, classes, None, "numbers" if numeric else None)
        tables = [first, *(read_rows(file, label, classes, first.columns, first.labels) for file in train[1:])]
        given = len(files) > len(train)
        test = read_rows(root / f"{TEST}.csv", label, classes, first.columns, first.labels) if given else None
    x, y = np.concatenate([each.x for each in tables]), np.concatenate([each.y for each in tables])
    names: tuple[str, ...] = ()
    if first.labels == "names":
        names = tuple(np.unique(np.concatenate([y, test.y]) if test else y).tolist())  # numbered for all clients alike
        good = len(names) > 1 and (classes is None or len(names) <= classes)
        check(good, f"{root} has {len(names)} class names, {', '.join(names[:9])}: it needs 2 to {classes or 'many'}")
        y = np.searchsorted(names, y)
        test = test and test._replace(y=np.searchsorted(names, test.y))
    owners = np.repeat(np.arange(len(tables)), [len(each.y) for each in tables])
    held_out = None if test is None else (test.x, test.y)
    known = 1 if numeric else classes or int(max(y.max(), test.y.max() if test else 0)) + 1
    columns = tuple(name for name in first.columns if name != label)
    learned: Task = Regression() if numeric else Classification()
    prepared = Preparation((), (), columns, names)
    return _federation(request, root, x, y, owners, held_out, known, holdout, prepared, learned)


def _parts(root: Path) -> dict[str, dict[str, list[Path]]]:
    """Client → class → files; classes that are directly in ``root`` belong to one part, '', to be split."""
    folders = _folders(root)
    if not folders:
        raise DataError(f"{root} has no folders: it needs one for every client, or one for every class")
    plain = {each.name: _folders(each) == [] for each in folders if each.name != TEST}
    check(bool(plain), f"{root} has only the folder {TEST}: there is nothing to train on")
    if len(set(plain.values())) > 1:
        odd = next(name for name, is_class in plain.items() if is_class)
        raise DataError(f"{root / odd} has no folders, but others beside it do: are they clients or classes?")
    if all(plain.values()):
        test = {TEST: _classes(root / TEST)} if (root / TEST).is_dir() else {}
        return {"": {name: _files(root / name) for name in plain}, **test}
    return {each.name: _classes(each) for each in folders}


def _classes(folder: Path) -> dict[str, list[Path]]:
    found = {each.name: _files(each) for each in _folders(folder)}
    if not found:
        raise DataError(f"{folder} has no folders: it needs one for every class")
    return found


def _folders(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))


def _files(folder: Path) -> list[Path]:
    found = sorted(each for each in folder.iterdir() if not each.name.startswith("."))
    if not found:
        raise DataError(f"{folder} is empty: put images of its class in, or remove it")
    return found


def _pictures(files: list[Path], first: Path, size: int | None, grey: bool) -> Any:
    wanted = (size, size) if size else picture_size(first)
    return decode_all(files, lambda i: files[i].open("rb"), wanted, scale=size is not None, grey=grey)


def _labels(parts: Any, names: list[str], root: Path) -> Indices:
    number = {name: i for i, name in enumerate(names)}
    labels: list[int] = []
    for part in parts:
        for name, found in part.items():
            if name not in number:
                raise DataError(f"{root / name} is a class that no training image has")
            labels += [number[name]] * len(found)
    return np.array(labels, dtype=np.int64)


def _federation(
    request: Request,
    root: Path,
    x: Any,
    y: Indices,
    owners: Indices,
    test: tuple[Any, Indices] | None,
    classes: int,
    holdout: float,
    about: Preparation,
    task: Task = Classification(),
) -> Federation:
    check_number("holdout", holdout, 0, 0.9)
    if test is None and holdout > 0:
        held = _held_out(owners, holdout)
        if held.any():
            test = (x[held], y[held])
            x, y, owners = x[~held], y[~held], owners[~held]
    features = torch.tensor(x, dtype=torch.float32)
    # Images are standardised a channel, tables a column: over all other dimensions.
    axes = [axis for axis in range(features.ndim) if axis != 1]
    mean, std = features.mean(axes, keepdim=True), features.std(axes, correction=0, keepdim=True)
    std[std == 0] = 1.0
    held_out = None if test is None else ((torch.tensor(test[0], dtype=torch.float32) - mean) / std, test[1])
    features = (features - mean) / std
    about = replace(about, mean=tuple(mean.flatten().tolist()), std=tuple(std.flatten().tolist()))
    if request.split is None and owners.max() > 0:  # the data comes with its clients
        rows = [np.flatnonzero(owners == i) for i in range(int(owners.max()) + 1)]
        options: Any = {"test": held_out, "classes": classes, "name": root.name, "task": task}
        return replace(Federation.from_arrays(features, y, clients=rows, **options), preparation=about)
    whole = request.federation(features, y, test=held_out, classes=classes, name=root.name, task=task)
    return replace(whole, preparation=about)


def _held_out(owners: Indices, share: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which samples are kept for the test: that share of every client's, drawn once and for all seeds alike."""
    rng = np.random.default_rng(0)
    held = np.zeros(len(owners), dtype=bool)
    for owner in np.unique(owners):
        mine = np.flatnonzero(owners == owner)
        held[rng.permutation(mine)[: int(share * len(mine))]] = True
    return held
