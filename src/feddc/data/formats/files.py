"""Reading, checking and writing single files, with errors that name the file in one sentence."""

from __future__ import annotations

import errno
import gzip
import hashlib
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ...errors import DataError
from ...storage.atomic import sync

# What the standard library raises on compressed or packed bytes that are cut short or altered.
DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, tarfile.TarError, zipfile.BadZipFile)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the operating system's errors about files in ``path`` into a DataError of one sentence."""
    try:
        yield
    except OSError as error:
        where = error.filename or path
        if isinstance(error, PermissionError) or error.errno == errno.EROFS:
            sentence = f"no permission to use {where}: choose another folder with --data-dir or FEDDC_DATA"
        elif error.errno in (errno.ENOSPC, errno.EDQUOT):
            sentence = f"the disk that holds {path} is full: free some space, or choose another folder with --data-dir"
        else:
            sentence = f"cannot use {where}: {error.strerror or error}"
        raise DataError(sentence) from error


def chunks(stream: IO[bytes] | gzip.GzipFile, name: str | Path) -> Iterator[bytes]:
    """The content of ``stream`` piece by piece; damage becomes a DataError that names the file."""
    try:
        while chunk := stream.read(1 << 20):
            yield chunk
    except DAMAGE as error:
        raise broken(name, str(error)) from error


def content(path: Path) -> bytes:
    """The bytes of a file, decompressed if its name ends in .gz."""
    with explained(path), _open(path) as stream:
        return b"".join(chunks(stream, path))


def store(stream: IO[bytes] | gzip.GzipFile, name: str | Path, target: Path, digest: str | None) -> None:
    """Write ``stream`` to ``target`` and check it; ``name`` is what errors call the source."""
    found = hashlib.new(_algorithm(digest))
    with target.open("wb") as out:
        for chunk in chunks(stream, name):
            found.update(chunk)
            out.write(chunk)
        sync(out)  # a machine that stops after the file has moved into place must not find it empty
    _compare(name, found.hexdigest(), digest)


def check_digest(path: Path, digest: str, *, unpack: bool = False) -> None:
    """Refuse a file whose checksum is not ``digest`` ("md5:…" or "sha256:…"); with ``unpack``, that of its content."""
    found = hashlib.new(_algorithm(digest))
    with explained(path), _open(path) if unpack else path.open("rb") as stream:
        for chunk in chunks(stream, path):
            found.update(chunk)
    _compare(path, found.hexdigest(), digest)


def broken(name: str | Path, why: str) -> DataError:
    """The error for a file that is not what it should be."""
    return DataError(f"{name} is broken ({why}): delete it and get it again")


def _open(path: Path) -> IO[bytes] | gzip.GzipFile:
    return gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb")


def _algorithm(digest: str | None) -> str:
    return digest.partition(":")[0] if digest else "md5"


def _compare(name: str | Path, found: str, digest: str | None) -> None:
    if digest and found != digest.partition(":")[2]:
        algorithm, _, wanted = digest.partition(":")
        raise broken(name, f"its {algorithm.upper()} is {found}, not {wanted}")
