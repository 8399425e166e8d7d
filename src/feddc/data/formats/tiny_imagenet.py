"""Tiny ImageNet, from its zip as downloaded or from the folder tiny-imagenet-200; tested on its validation part."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from .archive import check_member
from .files import DAMAGE, broken, explained
from .idx import Part, StoredImages
from .pictures import decode_all

SIDE = 64
ROOT = "tiny-imagenet-200/"
Reader = Callable[[str], bytes]


def read_tiny_imagenet(path: Path) -> StoredImages:
    """Images 3×64×64 (grey ones become RGB) of the folder or zip; classes are numbered by their sorted WordNet ids."""
    with explained(path), _files(path) as (names, read):
        number = {wnid: i for i, wnid in enumerate(sorted(_text(read("wnids.txt")).split()))}
        train: list[tuple[str, int]] = []
        for name in sorted(names):
            parts = name.split("/")
            if len(parts) == 4 and parts[0] == "train" and parts[2] == "images":
                if parts[1] not in number:
                    raise broken(path, f"train/{parts[1]} is not a class that wnids.txt lists")
                train.append((name, number[parts[1]]))
        test: list[tuple[str, int]] = []
        known = set(names)
        for line in _text(read("val/val_annotations.txt")).splitlines():
            image, _, rest = line.partition("\t")
            name, wnid = f"val/images/{image}", rest.partition("\t")[0]
            if name not in known or wnid not in number:
                raise broken(path, f"val_annotations.txt lists {name} of class {wnid or '-'}, which is not there")
            test.append((name, number[wnid]))
        return StoredImages(*_images(path, read, train), *_images(path, read, test))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


@contextmanager
def _files(path: Path) -> Iterator[tuple[Sequence[str], Reader]]:
    """The names of all files, relative to tiny-imagenet-200, and how to read one."""
    if path.is_dir():
        yield (
            [each.relative_to(path).as_posix() for each in path.rglob("*") if each.is_file()],
            lambda name: (path / name).read_bytes(),
        )
        return
    try:
        with zipfile.ZipFile(path) as packed:
            names = [check_member(path, name).removeprefix(ROOT) for name in packed.namelist() if name[-1:] != "/"]
            yield names, lambda name: packed.read(ROOT + name)
    except (*DAMAGE, KeyError) as error:  # KeyError: a member that should be there is not
        raise broken(path, str(error).strip("'\"")) from error


def _images(path: Path, read: Reader, listed: list[tuple[str, int]]) -> Part:
    if not listed:
        raise broken(path, "it has no images")
    x = decode_all([path / name for name, _ in listed], lambda i: io.BytesIO(read(listed[i][0])), (SIDE, SIDE))
    return x, np.array([label for _, label in listed], dtype=np.int64)
