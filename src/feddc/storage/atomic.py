"""Files that are there whole or not at all, also after a power cut."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

PART = ".part"
"""The ending of a file or folder that is not whole yet."""


def write_whole(path: Path, content: str | bytes, *, lasting: bool = True) -> None:
    """Write a file so that it is there whole or not at all: temporary file, fsync, rename, fsync of the folder.

    Without ``lasting`` the last step is left to the caller, who has more files to write before it.
    """
    part = path.with_name(path.name + PART)
    try:
        with part.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if lasting:
        sync_folder(path.parent)


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
