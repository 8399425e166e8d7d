"""Federations that nature split: small files in the same formats, and the real ones where they are."""

from __future__ import annotations

import csv
import gzip
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import feddc
from feddc.data.formats.plays import ALPHABET, read_roles, windows

from .formats import idx, pixels

REAL = Path(os.environ.get("FEDDC_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
CENTRES = ("cleveland", "hungarian", "switzerland", "va")


def real(name: str) -> Path:
    if not (REAL / name).is_dir():
        pytest.skip(f"needs {name} in {REAL}, or the folder that FEDDC_TEST_DATA names")
    return REAL


def patient(rng: np.random.Generator, ill: int, *, missing: bool = False) -> str:
    values = [
        *rng.integers(30, 70, 2),
        rng.integers(1, 5),
        120,
        "?" if missing else 210,
        0,
        rng.integers(3),
        150,
        1,
        0.5,
    ]
    return ",".join(map(str, [*values, "?", "?", "?", ill]))


def write_hospitals(root: Path) -> None:
    folder = root / "heart-disease"
    folder.mkdir(parents=True)
    for i, name in enumerate(CENTRES):
        rng = np.random.default_rng(i)
        lines = [patient(rng, int(number % (i + 2)), missing=number == 7) for number in range(20 + 4 * i)]
        (folder / f"processed.{name}.data").write_text("\n".join(lines) + "\n")


def test_hospitals(tmp_path: Path) -> None:
    write_hospitals(tmp_path)
    own = feddc.load("heart-disease", data_dir=tmp_path)
    assert len(own) == 4
    assert own.held is not None
    assert own.test is not None
    assert own.shape == (13,)
    assert own.task == feddc.MultiLabel(score="accuracy")
    for i, (train, test) in enumerate(zip(own.clients, own.held, strict=True)):
        assert len(train) + len(test) == 19 + 4 * i  # one row lacks a value
        x = own.x[train]
        torch.testing.assert_close(x.mean(dim=0), torch.zeros(13), atol=1e-5, rtol=0)  # each on its own scale
        spread = x.std(dim=0)
        torch.testing.assert_close(spread[spread > 0], torch.ones(int((spread > 0).sum())))
    torch.testing.assert_close(own.test[0], own.x[torch.cat(list(own.held))])
    pooled = feddc.load("heart-disease:test=pooled", data_dir=tmp_path)
    assert pooled.test is not None
    assert not torch.allclose(pooled.test[0], own.test[0])
    torch.testing.assert_close(pooled.x, own.x)
    torch.testing.assert_close(pooled.test[1], own.test[1])
    model = feddc.make_model("linear", own.shape, own.classes)
    record = feddc.train(feddc.FedDC(), model, own, rounds=3).records[-1]
    assert record.clients is not None
    assert len(record.clients.scores) == 4


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1,2,3\n", "line 1: 3 values, but the format has 14"),
        ("a" + ",1" * 13 + "\n", "line 1: .* not a number"),
        ("", "0 complete rows"),
    ],
)
def test_damaged_hospitals(tmp_path: Path, text: str, sentence: str) -> None:
    write_hospitals(tmp_path)
    (tmp_path / "heart-disease" / "processed.va.data").write_text(text)
    with pytest.raises(feddc.DataError, match=sentence):
        feddc.load("heart-disease", data_dir=tmp_path)


def test_the_real_hospitals() -> None:
    root = real("heart-disease")
    federation = feddc.load("heart-disease", data_dir=root)
    assert federation.held is not None
    assert federation.sizes.tolist() == [199, 172, 30, 85]
    assert [len(rows) for rows in federation.held] == [104, 89, 16, 45]
    positive = [round(float(federation.y[rows].mean()), 3) for rows in federation.clients]
    assert positive == [0.457, 0.378, 1.0, 0.776]
    assert [round(float(federation.y[rows].mean()), 3) for rows in federation.held] == [0.462, 0.371, 0.938, 0.778]
    split = root / "heart-disease" / "flamby_split.csv"
    with split.open() as stream:
        listed = list(csv.DictReader(stream))
    from feddc.data.formats.hospitals import read_centres

    paths = [root / "heart-disease" / f"processed.{name}.data" for name in CENTRES]
    for name, centre, path in zip(CENTRES, read_centres(paths), paths, strict=True):
        rows = [row for row in listed if row["centre"] == name and row["set"] in ("train", "test")]
        assert len(rows) == len(centre.y), path
        assert [i for i, row in enumerate(rows) if row["set"] == "train"] == sorted(centre.train.tolist())


def write_writers(root: Path, labels: np.ndarray, writers: np.ndarray) -> None:
    folder = root / "qmnist"
    folder.mkdir(parents=True)
    table = np.zeros((len(labels), 8), dtype=">i4")
    table[:, 0], table[:, 2] = labels, writers
    for part in ("train", "test"):
        header = struct.pack(">III", 0x0C02, len(table), 8)
        (folder / f"qmnist-{part}-labels-idx2-int.gz").write_bytes(gzip.compress(header + table.tobytes()))


def write_digits(root: Path, labels: np.ndarray) -> None:
    folder = root / "mnist"
    folder.mkdir(parents=True)
    for name in ("train", "t10k"):
        (folder / f"{name}-images-idx3-ubyte").write_bytes(idx(pixels(len(labels), 28, 28)))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(idx(labels.astype(np.uint8)))


def test_writers(tmp_path: Path) -> None:
    labels, writers = np.arange(30) % 10, np.repeat([7, 3, 900], [5, 15, 10])
    write_digits(tmp_path, labels)
    write_writers(tmp_path, labels, writers)
    federation = feddc.load("mnist-writers:sample=true", data_dir=tmp_path)
    assert federation.sizes.tolist() == [15, 5, 10]
    assert federation.clients[0].tolist() == list(range(5, 20))
    with pytest.raises(feddc.DataError, match="holds 30 digits, not 60000"):
        feddc.load("mnist-writers", data_dir=tmp_path)


def test_writers_of_other_digits(tmp_path: Path) -> None:
    write_digits(tmp_path, np.arange(30) % 10)
    write_writers(tmp_path, np.arange(30) % 9, np.zeros(30))
    with pytest.raises(feddc.DataError, match="their classes differ"):
        feddc.load("mnist-writers:sample=true", data_dir=tmp_path)


def test_the_real_writers() -> None:
    real("qmnist")
    federation = feddc.load("mnist-writers", data_dir=real("mnist"))
    sizes = federation.sizes
    assert (len(sizes), sizes.min(), int(np.median(sizes)), sizes.max()) == (539, 19, 116, 131)
    assert (sizes >= 100).sum() == 440


def write_plays(root: Path) -> None:
    folder = root / "shakespeare"
    folder.mkdir(parents=True)
    lines = "".join(f"<LINE>To be, <STAGEDIR>Aside</STAGEDIR>or\nnot  to be, line {i}:</LINE>" for i in range(40))
    speech = "<SPEECH><SPEAKER>{}</SPEAKER>{}</SPEECH>"
    play = (
        "<PLAY>"
        + speech.format("Hamlet", lines)
        + speech.format("HAMLET", lines)
        + speech.format("Ghost", "<LINE>Hm</LINE>")
    )
    with zipfile.ZipFile(folder / "shakespeare.zip", "w") as archive:
        archive.writestr("shakespeare/hamlet.xml", play + "</PLAY>")
        archive.writestr("shakespeare/README", "no play")


def test_roles(tmp_path: Path) -> None:
    write_plays(tmp_path)
    roles = read_roles(tmp_path / "shakespeare" / "shakespeare.zip")
    assert set(roles) == {("hamlet", "HAMLET"), ("hamlet", "GHOST")}
    said = roles["hamlet", "HAMLET"]
    assert said.startswith("To be, or not to be, line 0: To be, or")
    x, y = windows(said)
    assert "".join(ALPHABET[i] for i in x[3]) == said[3:83]
    assert ALPHABET[y[3]] == said[83]
    assert len(y) == len(said) - 80
    federation = feddc.load("shakespeare:train=700:test=200", data_dir=tmp_path)
    assert (len(federation), federation.classes, federation.shape) == (1, 80, (80,))
    assert federation.held is not None
    train, held = federation.clients[0], federation.held[0]
    assert (len(train), len(held)) == (700, 200)
    assert int(held[0]) - int(train[-1]) == 80  # no character of a test sample is predicted in training
    model = feddc.make_model("lstm:16", federation.shape, federation.classes)
    small = feddc.LocalTraining(steps=2, batch_size=4)
    record = feddc.train(feddc.FedAvg(), model, federation, rounds=1, training=small).records[-1]
    assert record.score.name == "accuracy"
    with pytest.raises(feddc.DataError, match="no role has 99678 samples"):
        feddc.load("shakespeare:train=99199", data_dir=tmp_path)


def test_the_model_of_the_authors() -> None:
    model = feddc.make_model("lstm", (80,), 80)
    assert sum(p.numel() for p in model.parameters()) == 133_520
    assert model(torch.zeros(2, 80, dtype=torch.int8)).shape == (2, 80)


def test_the_real_roles() -> None:
    roles = read_roles(real("shakespeare") / "shakespeare" / "shakespeare.zip")
    counts = np.array([len(text) - 80 for text in roles.values() if len(text) > 80])
    assert len(roles) == 296
    assert (len(counts), counts.sum(), counts.min(), counts.max()) == (
        252,
        908_370,
        2,
        61_213,
    )
    assert [(counts >= bound).sum() for bound in (1000, 2000)] == [122, 78]


@pytest.mark.parametrize("name", ["heart-disease", "mnist-writers", "shakespeare"])
def test_they_come_with_their_clients(name: str, tmp_path: Path) -> None:
    with pytest.raises(feddc.ConfigError, match="comes with its clients"):
        feddc.load(name, split="iid", data_dir=tmp_path)
    with pytest.raises(feddc.DataError, match="feddc data fetch"):
        feddc.load(name, data_dir=tmp_path)
