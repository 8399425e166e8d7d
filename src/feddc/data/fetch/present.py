"""What of a data set is on disk: find it, and verify it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...errors import DataError
from ..formats.files import check_digest, explained
from .entries import DataSet, File, Layout


@dataclass(frozen=True)
class Found:
    """A data set's files, all there, in one folder."""

    layout: Layout
    folder: Path
    paths: tuple[Path, ...]


def locate(data: DataSet, root: Path) -> Found | None:
    """The first layout of which every file is there, raw or gzipped; None if there is none."""
    with explained(root):
        for layout in data.layouts:
            for folder in (root / each for each in layout.folders):
                paths = [_path(folder, file) for file in layout.files]
                if all(path.is_file() for path in paths):
                    return Found(layout, folder, tuple(paths))
    return None


def require(data: DataSet, root: Path) -> Found:
    """Like ``locate``, but an error that says what to do when files are missing."""
    found = locate(data, root)
    if found is None:
        raise DataError(f"{data.name} is not in {root}: run `feddc data fetch {data.name}`{_partly(data, root)}")
    return found


def verify(found: Found) -> tuple[Path, ...]:
    """Check every file against its published checksum; returns the files that have none."""
    unknown = []
    for file, path in zip(found.layout.files, found.paths, strict=True):
        if file.digest is None or path.name == Path(file.name).stem != file.name:
            unknown.append(path)  # a file without checksum, or the unpacked form of one that is only known gzipped
        else:
            check_digest(path, file.digest, unpack=path.name == f"{Path(file.name).name}.gz")
    return tuple(unknown)


def _path(folder: Path, file: File) -> Path:
    """Where the file is: as named, gzipped, or unpacked."""
    named = folder / file.name
    other = named.with_suffix("") if named.suffix == ".gz" else named.with_name(f"{named.name}.gz")
    return other if other.is_file() and not named.is_file() else named


def _partly(data: DataSet, root: Path) -> str:
    """Which files are missing, where others of the same layout are there."""
    for layout in data.layouts:
        for folder in (root / each for each in layout.folders):
            missing = [file.name for file in layout.files if not _path(folder, file).is_file()]
            if len(missing) < len(layout.files):
                return f" ({folder} lacks {', '.join(missing)})"
    return ""
