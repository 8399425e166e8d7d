"""Small data sets in the genuine on-disk formats, written byte by byte as their authors' files are."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Bytes = NDArray[np.uint8]

MNIST_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
LETTER_FILES = tuple(
    f"emnist-letters-{part}-{kind}" for part in ("train", "test") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
)
CIFAR10_FILES = tuple([f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"])


def idx(array: Bytes) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def pixels(*shape: int, seed: int = 0) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, size=shape, dtype=np.uint8)


def mnist_contents(train: int = 40, test: int = 20) -> dict[str, bytes]:
    labels = (np.arange(train) % 10).astype(np.uint8)
    parts = (pixels(train, 28, 28), labels, pixels(test, 28, 28, seed=1), labels[:test])
    return {name: idx(part) for name, part in zip(MNIST_FILES, parts, strict=True)}


def letters_contents(each: int = 3) -> dict[str, bytes]:
    """All 26 letters, labelled 1 to 26 as in EMNIST Letters."""
    labels = np.repeat(np.arange(1, 27), each).astype(np.uint8)
    parts = (pixels(26 * each, 28, 28), labels, pixels(26, 28, 28, seed=1), np.arange(1, 27).astype(np.uint8))
    return {name: idx(part) for name, part in zip(LETTER_FILES, parts, strict=True)}


def write(folder: Path, contents: dict[str, bytes], *, packed: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)
    return folder


def cifar10_binary(each: int = 10) -> dict[str, bytes]:
    labels = (np.arange(each) % 10).astype(np.uint8)
    return {
        f"{name}.bin": np.concatenate([labels[:, None], pixels(each, 3072, seed=i)], axis=1).tobytes()
        for i, name in enumerate(CIFAR10_FILES)
    }


def cifar10_pickles(each: int = 10) -> dict[str, bytes]:
    """The same images as ``cifar10_binary``, pickled by Python 2 as the originals were."""
    labels = [i % 10 for i in range(each)]
    return {
        name: python2_pickle({"batch_label": name, "labels": labels, "data": pixels(each, 3072, seed=i)})
        for i, name in enumerate(CIFAR10_FILES)
    }


def cifar100_pickles(train: int = 500, test: int = 100) -> dict[str, bytes]:
    contents = {}
    for seed, (name, count) in enumerate((("train", train), ("test", test))):
        fine = [i % 100 for i in range(count)]
        entry = {"fine_labels": fine, "coarse_labels": [i % 20 for i in fine], "data": pixels(count, 3072, seed=seed)}
        contents[name] = python2_pickle(entry)
    return contents


def python2_pickle(entry: dict[str, object]) -> bytes:
    """A dictionary of texts, lists of small numbers and byte arrays, as cPickle of Python 2 writes it (protocol 2)."""
    return b"\x80\x02}(" + b"".join(_text(key) + _value(value) for key, value in entry.items()) + b"u."


def _text(text: str) -> bytes:
    return b"U" + bytes([len(text)]) + text.encode("latin1")


def _value(value: object) -> bytes:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return b"](" + b"".join(b"K" + bytes([each]) for each in value) + b"e"
    assert isinstance(value, np.ndarray)
    shape = b"".join(b"J" + struct.pack("<i", side) for side in value.shape) + b"\x86"
    start = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    return start + b"(K\x01" + shape + dtype + b"\x89T" + struct.pack("<i", value.size) + value.tobytes() + b"tb"


def picture(seed: int = 0, side: int = 64, mode: str = "RGB", kind: str = "JPEG") -> bytes:
    out = io.BytesIO()
    image = Image.fromarray(pixels(side, side, 3, seed=seed) if mode == "RGB" else pixels(side, side, seed=seed))
    image.save(out, kind)
    return out.getvalue()


def tiny_imagenet(classes: int = 3, train: int = 4, val: int = 2) -> dict[str, bytes]:
    """Paths and contents of a small tiny-imagenet-200; one image in four is grey."""
    wnids = [f"n{1009 - i}" for i in range(classes)]  # not in sorted order, as in the original
    contents = {"wnids.txt": "\n".join(wnids).encode() + b"\n"}
    lines = []
    for c, wnid in enumerate(wnids):
        contents[f"train/{wnid}/{wnid}_boxes.txt"] = b""
        for i in range(train):
            contents[f"train/{wnid}/images/{wnid}_{i}.JPEG"] = picture(10 * c + i, mode="RGB" if i % 4 else "L")
        for i in range(val):
            name = f"val_{c * val + i}.JPEG"
            contents[f"val/images/{name}"] = picture(100 + 10 * c + i)
            lines.append(f"{name}\t{wnid}\t0\t32\t44\t62")
    contents["val/val_annotations.txt"] = "\n".join(lines).encode() + b"\n"
    contents["test/images/test_0.JPEG"] = picture(7)
    return contents


def write_tree(root: Path, contents: dict[str, bytes]) -> Path:
    for name, content in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def write_zip(path: Path, contents: dict[str, bytes], prefix: str = "tiny-imagenet-200/") -> Path:
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in contents.items():
            packed.writestr(prefix + name, content)
    return path
