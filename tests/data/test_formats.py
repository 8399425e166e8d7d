"""Every loader on small files in the genuine format, and files that are refused by name."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import feddc
from feddc.data.augment import flip_and_crop
from feddc.data.fetch.catalogue import CATALOGUE
from feddc.data.formats.cifar import read_cifar10_binary, read_cifar10_pickles
from feddc.data.formats.tiny_imagenet import read_tiny_imagenet

from . import formats


def load(name: str, root: Path, clients: int = 5, split: str | None = None) -> feddc.Federation:
    return feddc.load(f"{name}:sample=true", clients=clients, split=split, data_dir=root)


@pytest.mark.parametrize(("name", "folder"), [("mnist", "MNIST/raw"), ("mnist", "mnist")])
@pytest.mark.parametrize("packed", [False, True])
def test_mnist_from_every_folder_raw_or_gzipped(tmp_path: Path, name: str, folder: str, packed: bool) -> None:
    formats.write(tmp_path / folder, formats.mnist_contents(), packed=packed)
    federation = load(name, tmp_path)
    assert federation.shape == (1, 28, 28)
    assert (len(federation), len(federation.y), federation.classes) == (5, 40, 10)
    assert federation.name == "mnist (sample)"
    expected = (torch.tensor(formats.pixels(40, 28, 28)) / 255 - 0.1307) / 0.3081
    torch.testing.assert_close(federation.inputs(federation.x)[:, 0], expected)


def test_fashion_mnist_is_not_mixed_up_with_mnist(tmp_path: Path) -> None:
    formats.write(tmp_path / "FashionMNIST/raw", formats.mnist_contents())
    federation = load("fashion-mnist", tmp_path)
    torch.testing.assert_close(
        federation.inputs(federation.x)[:, 0], (torch.tensor(formats.pixels(40, 28, 28)) / 255 - 0.2860) / 0.3530
    )
    with pytest.raises(feddc.DataError, match=r"mnist is not in .*: run `feddc data fetch mnist`"):
        load("mnist", tmp_path)


@pytest.mark.parametrize("packed", [False, True])
def test_emnist_l_is_the_first_ten_letters_upright_and_standardised(tmp_path: Path, packed: bool) -> None:
    formats.write(tmp_path / "EMNIST/raw", formats.letters_contents(), packed=packed)
    federation = load("emnist-l", tmp_path)
    assert federation.y.tolist() == np.repeat(np.arange(10), 3).tolist()
    assert federation.test is not None
    assert federation.test[1].tolist() == list(range(10))
    assert abs(float(federation.inputs(federation.x).mean())) < 1e-5
    assert abs(float(federation.inputs(federation.x).std()) - 1) < 1e-3
    first = federation.inputs(federation.x)[0, 0]
    stored = torch.tensor(formats.pixels(26 * 3, 28, 28)[0].T.astype(np.float32))
    torch.testing.assert_close((first - first.mean()) / first.std(), (stored - stored.mean()) / stored.std())


def test_cifar10_binary_and_pickles_are_the_same_images(tmp_path: Path) -> None:
    binary = formats.write(tmp_path / "a/cifar-10-batches-bin", formats.cifar10_binary())
    pickles = formats.write(tmp_path / "b/cifar-10-batches-py", formats.cifar10_pickles())
    one = read_cifar10_binary([binary / f"{name}.bin" for name in formats.CIFAR10_FILES])
    other = read_cifar10_pickles([pickles / name for name in formats.CIFAR10_FILES])
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
    first, second = load("cifar10", tmp_path / "a"), load("cifar10", tmp_path / "b")
    assert first.augment is second.augment is flip_and_crop
    assert first.shape == (3, 32, 32)
    assert len(first.y) == 50
    torch.testing.assert_close(first.x, second.x)
    red = (torch.tensor(formats.pixels(10, 3072)[0, :1024]).view(32, 32) / 255 - 0.491) / 0.247
    torch.testing.assert_close(first.inputs(first.x)[0, 0], red)


def test_pickles_of_python_3_are_read_too(tmp_path: Path) -> None:
    contents = {
        name: pickle.dumps({b"fine_labels": list(range(100)), b"data": formats.pixels(100, 3072)}, protocol=2)
        for name in ("train", "test")
    }
    formats.write(tmp_path / "cifar-100-python", contents)
    assert load("cifar100", tmp_path).classes == 100


@pytest.mark.parametrize("split", [None, "iid"])
def test_cifar100_iid_is_exactly_balanced(tmp_path: Path, split: str | None) -> None:
    formats.write(tmp_path / "cifar-100-python", formats.cifar100_pickles())
    federation = load("cifar100", tmp_path, clients=5, split=split)
    assert (federation.label_counts() == 1).all()


def test_tiny_imagenet_from_folder_and_zip(tmp_path: Path) -> None:
    contents = formats.tiny_imagenet()
    folder = formats.write_tree(tmp_path / "a/tiny-imagenet-200", contents)
    packed = tmp_path / "b"
    packed.mkdir()
    formats.write_zip(packed / "tiny-imagenet-200.zip", contents)
    one, other = read_tiny_imagenet(folder), read_tiny_imagenet(packed / "tiny-imagenet-200.zip")
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.x.shape == (12, 3, 64, 64)
    assert one.test_y.tolist() == [2, 2, 1, 1, 0, 0]  # classes are numbered by sorted WordNet id
    grey = one.x[0]
    assert (grey[0] == grey[1]).all()
    assert (grey[0] == grey[2]).all()
    federation = load("tiny-imagenet", tmp_path / "a", clients=2)
    assert federation.shape == (3, 64, 64)
    assert federation.classes == 200


def test_part_of_a_data_set_is_refused_unless_it_is_called_a_sample(tmp_path: Path) -> None:
    formats.write(tmp_path / "mnist", formats.mnist_contents())
    with pytest.raises(feddc.DataError, match="holds 40 training and 20 test images of mnist, not 60000 and 10000"):
        feddc.load("mnist", data_dir=tmp_path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    folder = formats.write(tmp_path / "mnist", formats.mnist_contents())
    (folder / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(feddc.DataError, match=r"feddc data fetch mnist.*lacks t10k-labels-idx1-ubyte"):
        load("mnist", tmp_path)


def damaged(change: Callable[[bytes], bytes], name: str = "t10k-labels-idx1-ubyte") -> dict[str, bytes]:
    contents = formats.mnist_contents()
    return contents | {name: change(contents[name])}


@pytest.mark.parametrize(
    ("contents", "packed", "match"),
    [
        (damaged(lambda b: b[:-3]), False, "t10k-labels-idx1-ubyte is broken .its header promises 20 bytes, 17 follow"),
        (damaged(lambda b: b + b"x"), False, "promises 20 bytes, 21 follow"),
        (damaged(lambda b: b[:5]), False, "does not start as an idx file"),
        (damaged(lambda _: b""), False, "does not start as an idx file"),
        (damaged(lambda b: b"<html>" + b), True, "does not start as an idx file"),
        (damaged(lambda b: b[:-1] + b"\x0b"), False, "labels go from 0 to 11, outside 0..9"),
        (damaged(lambda _: formats.idx(np.zeros(19, np.uint8))), False, "19 labels for 20 images"),
        (
            damaged(lambda _: formats.idx(formats.pixels(20, 27, 28)), "t10k-images-idx3-ubyte"),
            False,
            "images are 27×28, not 28×28",
        ),
        (damaged(lambda _: b"\0\0\x08\x01\xff\xff\xff\xff"), False, "promises 4294967295 bytes, 0 follow"),
    ],
)
def test_broken_idx_files(tmp_path: Path, contents: dict[str, bytes], packed: bool, match: str) -> None:
    formats.write(tmp_path / "mnist", contents, packed=packed)
    with pytest.raises(feddc.DataError, match=match):
        load("mnist", tmp_path)


@pytest.mark.parametrize("keep", [0, 5, 15, -10, -1])
def test_truncated_gzip(tmp_path: Path, keep: int) -> None:
    folder = formats.write(tmp_path / "mnist", formats.mnist_contents(), packed=True)
    path = folder / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(feddc.DataError, match=r"train-images-idx3-ubyte\.gz is broken"):
        load("mnist", tmp_path)


class Evil:
    """Unpickled by the ordinary unpickler this creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_malicious_pickles_do_nothing(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    attacks = [
        pickle.dumps({"data": Evil(victim), "labels": [0]}),
        b"cos\nmkdir\n(S'" + str(victim).encode() + b"'\ntR.",
        b'cbuiltins\neval\n(S\'__import__("os").mkdir("' + str(victim).encode() + b"\")'\ntR.",
        b"cnumpy\nload\n(S'x'\ntR.",
        b"\x80\x04\x8c\x05numpy\x8c\x0cdtype.__call__\x93.",
        b"ccopyreg\n_reconstructor\n.",
        pickle.dumps([1, 2]),
        pickle.dumps({"data": 3, "labels": [1]}),
        formats.python2_pickle({"data": formats.pixels(4, 3072)}),
        formats.python2_pickle({"data": formats.pixels(4, 3072), "labels": [1, 2, 3]}),
        formats.python2_pickle({"data": formats.pixels(4, 3072), "labels": [1, 2, 3, 10]}),
        formats.python2_pickle({"data": formats.pixels(4, 3071), "labels": [1, 2, 3, 4]}),
        b"not a pickle",
        b"",
        formats.cifar10_pickles()["data_batch_1"][:-100],
    ]
    for attack in attacks:
        folder = formats.write(tmp_path / "cifar-10-batches-py", formats.cifar10_pickles() | {"data_batch_3": attack})
        with pytest.raises(feddc.DataError, match="data_batch_3 is broken") as caught:
            load("cifar10", tmp_path)
        assert "\n" not in str(caught.value)
        assert folder.exists()
    assert not victim.exists()


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda _: b"", lambda b: b"\x0a" + b[1:]])
def test_broken_cifar_binary(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    contents = formats.cifar10_binary()
    name = "data_batch_2.bin"
    formats.write(tmp_path / "cifar-10-batches-bin", contents | {name: change(contents[name])})
    with pytest.raises(feddc.DataError, match=r"data_batch_2\.bin is broken"):
        load("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"val/images/val_1.JPEG": formats.picture(side=32)}, r"val_1\.JPEG is 32×32 pixels, not 64×64"),
        ({"val/images/val_1.JPEG": b"no picture"}, r"val_1\.JPEG cannot be read as an image"),
        ({"val/images/val_1.JPEG": formats.picture()[:800]}, r"val_1\.JPEG cannot be read as an image"),
        ({"train/n5/images/n5_0.JPEG": formats.picture()}, "train/n5 is not a class that wnids.txt lists"),
        ({"val/val_annotations.txt": b"val_0.JPEG\tn5\t0\t0\t0\t0\n"}, "of class n5, which is not there"),
        ({"val/val_annotations.txt": b"val_99.JPEG\tn1009\t0\t0\t0\t0\n"}, r"val_99\.JPEG"),
        ({"val/val_annotations.txt": b"../../wnids.txt\tn1009\t0\t0\t0\t0\n"}, "which is not there"),
        ({"val/val_annotations.txt": b""}, "it has no images"),
        ({"val/val_annotations.txt": b"one column\n"}, "val_annotations.txt"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_broken_tiny_imagenet(tmp_path: Path, changes: dict[str, bytes], match: str, packed: bool) -> None:
    contents = formats.tiny_imagenet() | changes
    if packed:
        formats.write_zip(tmp_path / "tiny-imagenet-200.zip", contents)
    else:
        formats.write_tree(tmp_path / "tiny-imagenet-200", contents)
    with pytest.raises(feddc.DataError, match=match):
        load("tiny-imagenet", tmp_path)


def test_truncated_zip(tmp_path: Path) -> None:
    path = formats.write_zip(tmp_path / "tiny-imagenet-200.zip", formats.tiny_imagenet())
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(feddc.DataError, match=r"tiny-imagenet-200\.zip is broken"):
        load("tiny-imagenet", tmp_path)


def test_zip_that_points_outside(tmp_path: Path) -> None:
    formats.write_zip(tmp_path / "tiny-imagenet-200.zip", formats.tiny_imagenet() | {"../../../evil": b"x"})
    with pytest.raises(feddc.DataError, match="would be written outside its folder"):
        load("tiny-imagenet", tmp_path)


def test_no_permission_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    formats.write(tmp_path / "mnist", formats.mnist_contents())

    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(feddc.DataError, match=r"no permission to use .*train-images-idx3-ubyte"):
        load("mnist", tmp_path)


def test_the_catalogue_is_consistent() -> None:
    from feddc.data import DATA
    from feddc.models import make_model
    from feddc.study.config import DATA_DEFAULTS, Config

    for name, entry in CATALOGUE.items():
        assert entry.name == name
        assert name in DATA
        channels = len(entry.mean or (0,))
        side = {"cifar10": 32, "cifar100": 32, "tiny-imagenet": 64}.get(name, 28)
        shape = {"heart-disease": (13,), "shakespeare": (80,)}.get(name, (channels, side, side))
        make_model(DATA_DEFAULTS[name].get("model", Config.model), shape, entry.classes)
        assert entry.augment == name.startswith("cifar")
