"""The genuine files, where they are at hand beside the project; skipped elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import feddc
from feddc.data.fetch.catalogue import CATALOGUE
from feddc.data.fetch.present import require, verify
from feddc.data.formats.archive import members

SHARED = Path(__file__).parents[3] / "shared" / "data"


def needs(*parts: str) -> Path:
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{Path(*parts)} is not beside the project")
    return path


@pytest.mark.parametrize(("name", "first"), [("mnist", [5, 0, 4, 1, 9]), ("fashion-mnist", [9, 0, 0, 3, 0])])
def test_mnist_and_fashion_mnist(name: str, first: list[int]) -> None:
    root = needs(name).parent
    assert verify(require(CATALOGUE[name], root)) == ()
    federation = feddc.load(name, clients=100, split="dirichlet:0.3", data_dir=root)
    assert federation.x.shape == (60000, 1, 28, 28)
    assert federation.test is not None
    assert len(federation.test[1]) == 10000
    assert federation.y[:5].tolist() == first
    assert federation.sizes.tolist() == [600] * 100
    assert abs(float(federation.inputs(federation.x).mean())) < 1e-3
    assert abs(float(federation.inputs(federation.x).std()) - 1) < 1e-3


def test_cifar100_sample(tmp_path: Path) -> None:
    archive = needs("cifar-100-sample", "cifar-100-python.tar.gz")
    (tmp_path / "cifar-100-python").mkdir()
    for name, stream in members(archive):
        (tmp_path / name).write_bytes(stream.read())
    federation = feddc.load("cifar100:sample=true", clients=100, data_dir=tmp_path)
    assert federation.x.shape == (10000, 3, 32, 32)
    assert (federation.label_counts() == 1).all()
    means = federation.inputs(federation.x).mean(dim=(0, 2, 3))
    torch.testing.assert_close(means, torch.zeros(3), atol=0.02, rtol=0)


def test_tiny_imagenet_sample() -> None:
    root = needs("tiny-imagenet-sample", "tiny-imagenet-200.zip").parent
    federation = feddc.load("tiny-imagenet:sample=true", clients=20, data_dir=root)
    assert federation.x.shape == (2000, 3, 64, 64)
    assert federation.test is not None
    assert len(federation.test[1]) == 1000
    assert torch.bincount(federation.y)[:20].tolist() == [100] * 20
    assert federation.classes == 200
    with pytest.raises(feddc.DataError, match="holds 2000 training and 1000 test images of tiny-imagenet"):
        feddc.load("tiny-imagenet", data_dir=root)
    with pytest.raises(feddc.DataError, match=r"tiny-imagenet-200\.zip is broken"):
        verify(require(CATALOGUE["tiny-imagenet"], root))
