"""`feddc data`: list, fetch, verify and path; mistakes are one sentence and exit code 2."""

from __future__ import annotations

import gzip
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from feddc.cli import main
from feddc.data.fetch.catalogue import CATALOGUE
from feddc.data.fetch.entries import File, Web

from ..data import formats
from ..data.server import serve
from ..data.test_fetch import md5


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["data", *map(str, words)])
    return int(caught.value.code or 0)


def test_list_and_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    formats.write(tmp_path / "mnist", formats.mnist_contents())
    assert run("list", "--data-dir", tmp_path) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert set(CATALOGUE) < set(lines)
    assert lines["mnist"].endswith(str(tmp_path / "mnist"))
    assert lines["cifar10"].endswith("-")
    assert run("path", "--data-dir", tmp_path) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path)


def test_fetch_and_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    contents = formats.mnist_contents()
    mnist = CATALOGUE["mnist"]
    layout = replace(mnist.layouts[0], files=tuple(File(name, md5(content)) for name, content in contents.items()))
    with serve({f"{name}.gz": gzip.compress(content) for name, content in contents.items()}) as site:
        small = replace(mnist, layouts=(layout,), origins=(Web(site.url, suffix=".gz"),))
        monkeypatch.setitem(CATALOGUE, "mnist", small)
        assert run("fetch", "mnist", "--data-dir", tmp_path) == 0
    out, err = capsys.readouterr()
    assert out.strip() == f"mnist is in {tmp_path / 'MNIST/raw'}, with the right checksums"
    assert "train-images-idx3-ubyte.gz" in err
    assert run("verify", "mnist", "--data-dir", tmp_path) == 0
    assert "is valid" in capsys.readouterr().out
    (tmp_path / "MNIST/raw/t10k-labels-idx1-ubyte").write_bytes(b"")
    assert run("verify", "mnist", "--data-dir", tmp_path) == 2
    assert "t10k-labels-idx1-ubyte is broken" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fetch", "mnits"], "unknown data set 'mnits': did you mean 'mnist'?"),
        (["verify", "mnist"], "mnist is not in "),
    ],
)
def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str) -> None:
    assert run(*words, "--data-dir", tmp_path) == 2
    out, err = capsys.readouterr()
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_help_does_not_wait_for_torch() -> None:
    script = "import sys, feddc.cli.data; print([m for m in ('torch', 'PIL', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
