"""Files that are there whole or not at all, also after a power cut."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import IO

PART = ".part"
"""The ending of a file or folder that is not whole yet."""


@contextmanager
def replacing(path: Path, *, lasting: bool = True) -> Iterator[Path]:
    """A file to write instead of ``path``, whose place it takes when it is whole: fsync, rename, fsync of the folder.

    Without ``lasting`` the last step is left to the caller, who has more files to write before it.
    """
    part = path.with_name(path.name + PART)
    try:
        yield part
        with part.open("rb") as file:
            sync(file)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if lasting:
        sync_folder(path.parent)


def write_whole(path: Path, content: str | bytes, *, lasting: bool = True) -> None:
    """Write a file so that it is there whole or not at all; see ``replacing``."""
    with replacing(path, lasting=lasting) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def sync(file: IO[bytes] | FileIO) -> None:
    """Make what was written to an open file last."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last: a rename is only on disk when its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest(path: Path, length: int | None = None) -> str:
    """The SHA-256 of a file, or of its first ``length`` bytes. A file that is shorter has another digest."""
    found = hashlib.sha256()
    left = path.stat().st_size if length is None else length
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(left, 2**20))):
            found.update(block)
            left -= len(block)
    return found.hexdigest()
