"""Datasets that are read while training: fresh random transforms, the same ones for any executor and reader."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import feddc
from feddc.data.lazy import Datasets, LazyBatches

TRAINING = feddc.LocalTraining(epochs=2, batch_size=4, lr=0.05)


class Noisy:
    """Samples with a random transform, which counts how often it was drawn."""

    def __init__(self, size: int, seed: int = 0, noise: float = 1.0) -> None:
        rng = np.random.default_rng(seed)
        self.x, self.y = rng.normal(size=(size, 3)).astype(np.float32), rng.integers(2, size=size)
        self.noise, self.classes = noise, ["no", "yes"]
        self.drawn: list[float] = []

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        luck = torch.rand(1) * self.noise
        self.drawn.append(float(luck))
        return torch.from_numpy(self.x[i]) + luck, int(self.y[i])


def federation(readers: int = 0, **options: Any) -> feddc.Federation:
    parts = [Noisy(9, 1), Noisy(6, 2), Noisy(7, 3)]
    return feddc.Federation.from_datasets(parts, test=Noisy(10, 4, noise=0.0), readers=readers, **options)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def losses(executor: str, readers: int = 0, seed: int = 0) -> list[float]:
    workers = 2 if executor == "workers" else None
    options: Any = {"rounds": 3, "training": TRAINING, "executor": executor, "workers": workers, "seed": seed}
    return [r.metrics["loss"] for r in feddc.train(feddc.FedDC(), model(), federation(readers), **options).records]


def test_transforms_are_fresh_in_every_epoch_and_keyed() -> None:
    whole = federation()
    assert whole.lazy is not None
    noisy: Noisy = whole.lazy.train.parts[0]
    noisy.drawn.clear()
    feddc.train(feddc.FedAvg(), model(), whole, rounds=2, training=TRAINING, executor="in-process")
    assert len(set(noisy.drawn)) == 36 + 2  # 9 samples, 2 epochs, 2 rounds; and the two that the model is tried on
    plain = losses("in-process")
    assert losses("in-process") == plain
    assert losses("in-process", seed=1) != plain


@pytest.mark.parametrize(("executor", "readers"), [("in-process", 1), ("workers", 0)])
def test_who_reads_does_not_matter(executor: str, readers: int) -> None:
    assert losses(executor, readers) == losses("in-process")


def test_reading_does_not_disturb_other_randomness() -> None:
    source = Datasets.of([Noisy(5)], feddc.Classification(), "training", "label")
    torch.manual_seed(7)
    before = torch.rand(1)
    torch.manual_seed(7)
    source.read(range(5), (1, 2, 3))
    assert torch.rand(1) == before
    rows = [torch.tensor([0, 1]), torch.tensor([2])]
    inline, ahead = (list(LazyBatches(source, rows, (1, 2)).read(readers)) for readers in (0, 1))
    assert all(torch.equal(a[0], b[0]) for a, b in zip(inline, ahead, strict=True))


def test_samples_can_be_held_out() -> None:
    whole = federation(holdout=0.3, validation=0.1)
    record = feddc.train(feddc.FedAvg(), model(), whole, rounds=1, training=TRAINING, personal=True).records[-1]
    assert record.clients is not None
    assert record.validation is not None
    assert whole.sizes.tolist() == [5, 3, 4]


def test_hugging_face() -> None:
    datasets = pytest.importorskip("datasets")
    rng = np.random.default_rng(0)
    features = datasets.Features(
        {"pixels": datasets.Sequence(datasets.Value("float32"), 3), "label": datasets.ClassLabel(names=["a", "b"])}
    )
    rows = {"pixels": rng.normal(size=(20, 3)).tolist(), "label": (np.arange(20) % 2).tolist()}
    table = datasets.Dataset.from_dict(rows, features=features)
    parts = [table.select(range(0, 12)), table.select(range(12, 20))]
    whole = feddc.Federation.from_datasets(parts, test=table)
    assert (whole.classes, whole.shape, whole.sizes.tolist()) == (2, (3,), [12, 8])
    lazily = feddc.train(feddc.FedAvg(), model(), whole, rounds=2, training=TRAINING)
    in_memory = feddc.Federation.from_dataset(table, test=table, clients=[list(range(12)), list(range(12, 20))])
    once = feddc.train(feddc.FedAvg(), model(), in_memory, rounds=2, training=TRAINING, executor="in-process")
    assert lazily.records[-1].metrics == once.records[-1].metrics


def test_random_transforms_cannot_be_frozen() -> None:
    with pytest.raises(feddc.DataError, match="would freeze its random transforms"):
        feddc.Federation.from_dataset(Noisy(9), sizes=[9])
    plain = feddc.Federation.from_dataset(Noisy(9, noise=0.0), sizes=[4, 5])
    assert plain.shape == (3,)


class Shrinking(Noisy):
    def __len__(self) -> int:
        return 5

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        if i > 2:
            raise IndexError(i)
        return super().__getitem__(i)


def stream() -> Iterator[tuple[Tensor, int]]:
    yield torch.zeros(3), 0


@pytest.mark.parametrize(
    ("parts", "options", "sentence"),
    [
        ([stream()], {}, "the training dataset 0 is a generator, which has no len"),
        (stream(), {}, "datasets must be a list with a dataset for each client"),
        ([], {}, "datasets must be a list"),
        ([[]], {}, "dataset 0 is empty"),
        ([[1, 2]], {}, "must give pairs .sample, target., not a int"),
        ([[{"x": [1.0]}]], {}, "a training sample has x, but no 'label': give target="),
        ([[([1.0], 0), ([2.0], 1)]], {}, "do not say how many classes there are: give classes="),
        ([[([1.0], 0.5), ([2.0], 1.5)]], {"classes": 2}, "labels must be whole numbers"),
        ([[([1.0], 0), ([2.0, 3.0], 1)]], {"classes": 2}, "do not fit together"),
        ([Noisy(3)], {"readers": -1}, "readers must be a whole number, 0 or more"),
    ],
)
def test_bad_datasets(parts: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(feddc.FedDCError, match=sentence):
        feddc.Federation.from_datasets(parts, **options)


def test_a_dataset_that_shrinks() -> None:
    whole = feddc.Federation.from_datasets([Shrinking(9), Noisy(4)])
    with pytest.raises(feddc.DataError, match=r"dataset 0 cannot be read .* had 5 samples at the start"):
        feddc.train(feddc.FedAvg(), model(), whole, rounds=1, training=TRAINING)


SCRIPT = """
import torch, feddc
class Mine(torch.utils.data.Dataset):
    classes = ["a", "b"]
    def __len__(self): return 8
    def __getitem__(self, i): return torch.full((3,), float(i)), i % 2
class Net(torch.nn.Linear): pass
federation = feddc.Federation.from_datasets([Mine(), Mine()], test=Mine())
model = Net(3, 2)
result = feddc.train(feddc.FedAvg(), model, federation, rounds=1, executor="workers", workers=2)
print(result.records[-1].accuracy)
"""


def test_classes_defined_in_a_script_work_with_workers(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 0 <= float(done.stdout) <= 1
