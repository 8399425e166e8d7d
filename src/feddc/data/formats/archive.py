"""Members of tar and zip archives. Nothing is unpacked by its own name, and an archive that tries to is refused."""

from __future__ import annotations

import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from ...errors import DataError
from .files import DAMAGE, broken


def members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of every regular file in an archive, in the archive's order; names have no leading ``./``."""
    try:
        yield from _zip(archive) if zipfile.is_zipfile(archive) else _tar(archive)
    except DAMAGE as error:
        raise broken(archive, str(error) or "it ends too early") from error


def check_member(archive: Path, name: str) -> str:
    """The name of a member, less a leading ``./``; refused if it would be outside the archive's folder."""
    absolute = name.startswith(("/", "\\")) or bool(PureWindowsPath(name).drive)
    if absolute or ".." in PurePosixPath(name.replace("\\", "/")).parts:
        raise DataError(f"{archive} is refused: its member '{name}' would be written outside its folder")
    return name.removeprefix("./")


def _zip(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            name = check_member(archive, info.filename)
            if stat.S_ISLNK(info.external_attr >> 16):
                check_member(archive, packed.read(info).decode("utf-8", "replace"))
            elif not info.is_dir():
                with packed.open(info) as stream:
                    yield name, stream


def _tar(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(archive) as packed:
        for info in packed:
            name = check_member(archive, info.name)
            if info.islnk() or info.issym():
                check_member(archive, info.linkname)
            stream = packed.extractfile(info) if info.isreg() else None
            if stream is not None:
                yield name, stream
