"""Your own images and tables: the layouts of docs/own-data.md, and what is wrong with a file, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import feddc
from feddc.data import from_csv, from_image_folder
from feddc.data.augment import flip_and_crop

from . import formats


def png(seed: int = 0, side: int = 8, mode: str = "RGB") -> bytes:
    return formats.picture(seed, side, mode, "PNG")


def by_client(images: int = 10) -> dict[str, bytes]:
    """Two clients; the second has only dogs."""
    holds = {"anna/cat": images, "anna/dog": images, "bert/dog": 2 * images}
    return {f"{folder}/{i}.png": png(i) for folder, count in holds.items() for i in range(count)}


def test_folders_of_clients(tmp_path: Path) -> None:
    root = formats.write_tree(tmp_path / "pets", by_client() | {".hidden/x": b"", "anna/cat/.DS_Store": b""})
    federation = from_image_folder(root)
    assert federation.name == "pets"
    assert federation.shape == (3, 8, 8)
    assert federation.sizes.tolist() == [16, 16], "a fifth of every client's images is kept for the test"
    assert federation.test is not None
    assert len(federation.test[1]) == 8
    assert federation.label_counts()[1].tolist() == [0, 16]
    torch.testing.assert_close(federation.x.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(federation.x.std(dim=(0, 2, 3), correction=0), torch.ones(3))


def test_a_test_folder_and_no_holdout(tmp_path: Path) -> None:
    root = formats.write_tree(tmp_path / "pets", by_client() | {"test/dog/1.png": png(99)})
    federation = from_image_folder(root)
    assert federation.sizes.tolist() == [20, 20]
    assert federation.test is not None
    assert federation.test[1].tolist() == [1]
    root = formats.write_tree(tmp_path / "other", by_client())
    assert from_image_folder(root, holdout=0).test is None


def test_folders_of_classes_and_a_split(tmp_path: Path) -> None:
    contents = {f"{name}/{i}.png": png(i) for name in ("cat", "dog", "eel") for i in range(10)}
    root = formats.write_tree(tmp_path / "pets", contents | {f"test/cat/{i}.png": png(50 + i) for i in range(3)})
    federation = feddc.load(f"images:path={root}", clients=5, split="dirichlet:0.3")
    assert federation.sizes.tolist() == [6] * 5
    assert federation.classes == 3
    assert federation.test is not None
    assert federation.test[1].tolist() == [0, 0, 0]


def test_pooling_clients_anew(tmp_path: Path) -> None:
    root = formats.write_tree(tmp_path / "pets", by_client())
    assert len(from_image_folder(root, clients=4, split="iid")) == 4


def test_size_scales_and_grey_drops_colour(tmp_path: Path) -> None:
    contents = by_client() | {"bert/dog/large.png": png(3, 12), "bert/dog/grey.png": png(4, 8, "L")}
    root = formats.write_tree(tmp_path / "pets", contents)
    federation = feddc.load(f"images:path={root}:size=16:grey=true")
    assert federation.shape == (1, 16, 16)
    assert len(federation) == 2


def bad_images(tmp_path: Path, changes: dict[str, bytes]) -> str:
    root = formats.write_tree(tmp_path / "pets", by_client(3) | changes)
    with pytest.raises(feddc.FedDCError) as caught:
        from_image_folder(root)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_images_that_are_refused(tmp_path: Path) -> None:
    wrong = bad_images(tmp_path / "a", {"bert/dog/x.png": png(0, 9)})
    assert "bert/dog/x.png is 9×9 pixels, not 8×8" in wrong
    assert "bert/dog/x.png cannot be read as an image" in bad_images(tmp_path / "b", {"bert/dog/x.png": b"text"})
    assert "bert/dog/x.png cannot be read as an image" in bad_images(
        tmp_path / "c", {"bert/dog/x.png": png(0, 8)[:-60]}
    )
    assert "test/eel is a class that no training image has" in bad_images(tmp_path / "d", {"test/eel/x.png": png()})
    (tmp_path / "e/pets/bert/eel").mkdir(parents=True)
    assert "bert/eel is empty" in bad_images(tmp_path / "e", {})
    assert "are they clients or classes?" in bad_images(tmp_path / "f", {"carl/x.png": png()})


def test_folders_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(feddc.DataError, match="nowhere: No such file"):
        from_image_folder(tmp_path / "nowhere")
    with pytest.raises(feddc.DataError, match="has no folders"):
        from_image_folder(tmp_path)
    formats.write_tree(tmp_path / "pets", {"test/cat/1.png": png()})
    with pytest.raises(feddc.FedDCError, match="nothing to train on"):
        from_image_folder(tmp_path / "pets")
    with pytest.raises(feddc.ConfigError, match="needs path: write images:path="):
        feddc.load("images")
    with pytest.raises(feddc.ConfigError, match="holdout must be"):
        from_image_folder(formats.write_tree(tmp_path / "more", by_client(3)), holdout=1.5)
    with pytest.raises(feddc.ConfigError, match="size must be"):
        from_image_folder(tmp_path / "more", size=0)


def table(rows: int = 10, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    lines = [f"{a:.3f},{i % 2},{b:.3f},7" for i, (a, b) in enumerate(rng.normal(size=(rows, 2)))]
    return "\n".join(["age,y,pulse,constant", *lines]) + "\n"


def folder(root: Path, texts: dict[str, str]) -> Path:
    return formats.write_tree(root, {name: text.encode() for name, text in texts.items()})


def test_a_csv_for_every_client(tmp_path: Path) -> None:
    root = folder(tmp_path / "hospitals", {"a.csv": table(10), "b.csv": table(20, seed=1), "notes.txt": "?"})
    federation = from_csv(root, label="y")
    assert federation.shape == (3,)
    assert federation.sizes.tolist() == [8, 16]
    assert federation.classes == 2
    torch.testing.assert_close(federation.x.mean(dim=0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(federation.x.std(dim=0, correction=0), torch.tensor([1.0, 1.0, 0.0]))


def test_test_csv_and_a_single_file(tmp_path: Path) -> None:
    root = folder(tmp_path / "hospitals", {"a.csv": table(10), "b.csv": "\ufeff" + table(20), "test.csv": table(5)})
    federation = feddc.load(f"csv:path={root}:label=y:classes=3")
    assert federation.sizes.tolist() == [10, 20]
    assert federation.classes == 3
    assert federation.test is not None
    assert len(federation.test[1]) == 5
    single = feddc.load(f"csv:path={root / 'b.csv'}:label=y", clients=4, split="dirichlet:0.5")
    assert single.sizes.tolist() == [4] * 4


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("age,y\n1,0\n2,x\n", r"b\.csv, line 3: the label 'x' is not a class number in 0\.\.1"),
        ("age,y\n1,2\n", r"b\.csv, line 2: the label '2' is not a class number in 0\.\.1"),
        ("age,y\n1,-1\n", "the label '-1' is not"),
        ("age,y\n1,0.5\n", r"the label '0\.5' is not"),
        ("age,y\nold,1\n", r"b\.csv, line 2: 'old' is not a number"),
        ("age,y\n,1\n", "'' is not a number"),
        ("age,y\nnan,1\n", "'nan' is not a finite number"),
        ("age,y\n1,1,1\n", r"b\.csv, line 2: 3 values, but the header has 2 columns"),
        ("age,y\n", r"b\.csv has no rows"),
        ("", r"b\.csv has no column 'y': its columns are none"),
        ("age,z\n1,1\n", r"b\.csv has no column 'y': its columns are age, z"),
        ("pulse,y\n1,1\n", r"b\.csv has other columns than the files before it"),
        ("age,y\n1,\x00\xff\n", "the label"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, text: str, match: str) -> None:
    root = folder(tmp_path / "hospitals", {"a.csv": "age,y\n1,0\n2,1\n\n", "b.csv": text})
    with pytest.raises(feddc.DataError, match=match):
        from_csv(root, label="y", classes=2)


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(png())
    with pytest.raises(feddc.DataError, match=r"a\.csv is not a CSV file"):
        from_csv(tmp_path, label="y")
    (tmp_path / "a.csv").write_text("y\n1\n")
    with pytest.raises(feddc.DataError, match=r"a\.csv has no feature columns"):
        from_csv(tmp_path, label="y")
    (tmp_path / "a.csv").unlink()
    with pytest.raises(feddc.DataError, match="has no CSV files"):
        from_csv(tmp_path, label="y")
    with pytest.raises(feddc.DataError, match="there is no file or folder"):
        from_csv(tmp_path / "nowhere", label="y")


def test_augment_with_every_constructor(tmp_path: Path) -> None:
    def noisy(batch: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        return batch + torch.from_numpy(rng.normal(size=tuple(batch.shape)).astype(np.float32))

    (tmp_path / "rows.csv").write_text(table(20))
    assert from_csv(tmp_path / "rows.csv", label="y", clients=2, augment=noisy).augment is noisy
    formats.write_tree(tmp_path / "images", by_client())
    assert from_image_folder(tmp_path / "images", augment=flip_and_crop).augment is flip_and_crop
    assert feddc.load("digits", augment=noisy).augment is noisy
    x, y = np.ones((6, 2), np.float32), np.arange(6) % 2
    pairs = [(torch.ones(2), 0), (torch.ones(2), 1)]
    datasets = feddc.Federation.from_datasets([pairs, pairs], classes=2, augment=noisy)
    assert datasets.augment is feddc.Federation.from_arrays(x, y, sizes=[6], augment=noisy).augment


def test_augmentation_that_does_not_fit(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(table(20))
    options: Any = {"path": tmp_path / "rows.csv", "label": "y", "clients": 2}
    with pytest.raises(feddc.DataError, match=r"augment cannot take a batch of samples of shape \(\d,\): not enough"):
        from_csv(**options, augment=flip_and_crop)
    with pytest.raises(feddc.DataError, match="as many samples as it was given"):
        from_csv(**options, augment=lambda batch, _: batch[:1])
    with pytest.raises(feddc.ConfigError, match=r"augment must be a function of \(batch, generator\), not 'flip'"):
        from_csv(**options, augment="flip")


def test_class_names_in_a_table_are_numbered_alike_for_all_clients(tmp_path: Path) -> None:
    rows = {"a": ["well", "sick", "well"], "b": ["sick", "sick", "dead"]}
    for site, labels in rows.items():
        lines = [f"{i},{label}" for i, label in enumerate(labels)]
        (tmp_path / f"{site}.csv").write_text("\n".join(["age,outcome", *lines]) + "\n")
    federation = feddc.from_csv(tmp_path, label="outcome", holdout=0)
    assert federation.preparation is not None
    names = federation.preparation.classes
    assert names == ("dead", "sick", "well")
    assert [[names[y] for y in federation.y[rows]] for rows in federation.clients] == list(rows.values())
    with pytest.raises(feddc.ConfigError, match="3 class names, dead, sick, well: it needs 2 to 2"):
        feddc.from_csv(tmp_path, label="outcome", classes=2)
    (tmp_path / "b.csv").write_text("age,outcome\n1,\n")
    with pytest.raises(feddc.DataError, match="line 2: the label is empty, where others are class names"):
        feddc.from_csv(tmp_path, label="outcome")


def test_a_folder_that_is_given_as_a_data_set(tmp_path: Path) -> None:
    with pytest.raises(feddc.ConfigError, match=f"give csv:path={tmp_path}:label=COLUMN or images:path={tmp_path}"):
        feddc.load(str(tmp_path))
