"""CIFAR-100 packed from pictures: pixels, labels and layout as the official file has them; mistakes in one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import feddc
from feddc.data.formats.cifar import read_cifar100_pickles
from feddc.data.formats.packing import pack_cifar100
from tests.cli.test_cli import feddc as command

EACH = {"train": 2, "test": 1}


def pictures(folder: Path) -> Path:
    """Class i has pictures whose pixel (row 1, column 2) is (i, 7, its number); names do not sort by number."""
    for part, count in EACH.items():
        for label in range(100):
            place = folder / part / f"class{label:02}"
            place.mkdir(parents=True)
            for number in range(count):
                pixels = np.zeros((32, 32, 3), np.uint8)
                pixels[1, 2] = label, 7, number
                Image.fromarray(pixels).save(place / f"{'ba'[number]}.png")
    return folder


def test_pixels_and_labels(tmp_path: Path) -> None:
    target = pack_cifar100(pictures(tmp_path / "p"), tmp_path / "data", EACH)
    arrays = read_cifar100_pickles([target / "train", target / "test"])
    assert arrays.x.shape == (200, 3, 32, 32)
    assert arrays.y.tolist() == [label for label in range(100) for _ in range(2)]
    assert arrays.x[7, :, 1, 2].tolist() == [3, 7, 0]  # class 3, and "b.png" is its second file
    assert arrays.x[6, :, 1, 2].tolist() == [3, 7, 1]
    assert arrays.test_x[99, :, 1, 2].tolist() == [99, 7, 0]
    with pytest.raises(feddc.ConfigError, match="exists already"):
        pack_cifar100(tmp_path / "p", tmp_path / "data", EACH)


def test_what_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = pictures(tmp_path / "p")
    assert command("data", "pack-cifar100", str(folder), "--data-dir", str(tmp_path / "data")) == 2
    assert f"{folder / 'train' / 'class00'} has 2 PNG files, not 500" in capsys.readouterr().err
    (folder / "test" / "class05").rename(folder / "test" / "other")
    with pytest.raises(feddc.ConfigError, match="different classes"):
        pack_cifar100(folder, tmp_path / "data", EACH)
    assert command("data", "pack-cifar100", str(tmp_path / "no"), "--data-dir", str(tmp_path / "data")) == 2
    assert not (tmp_path / "data").exists()


def test_a_picture_of_another_size_is_refused_and_nothing_written(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "p")
    Image.new("RGB", (31, 32)).save(folder / "test" / "class50" / "b.png")
    with pytest.raises(feddc.DataError, match=r"b\.png is 31×32 pixels, not 32×32"):
        pack_cifar100(folder, tmp_path / "data", EACH)
    assert not (tmp_path / "data").exists()
