"""Pre-trained ResNet18 weights in torchvision's layout."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import feddc
from feddc.models import make_model

SHAPE = (3, 64, 64)


@pytest.fixture(scope="module")
def pretrained() -> dict[str, Tensor]:
    """A state dict as torchvision's resnet18 has it: BatchNorm, 1000 classes."""
    return make_model("resnet18:norm=batch", SHAPE, 1000, seed=3).state_dict()


@pytest.mark.parametrize("kind", ["pth", "safetensors"])
def test_weights_go_to_group_norm_and_the_last_layer_stays_fresh(
    tmp_path: Path, pretrained: dict[str, Tensor], kind: str
) -> None:
    path = tmp_path / f"resnet18.{kind}"
    pretrained["bn1.weight"] += 0.5
    torch.save(pretrained, path) if kind == "pth" else save_file(pretrained, path)
    model = make_model(f"resnet18:weights={path}", SHAPE, 200).state_dict()
    scratch = make_model("resnet18", SHAPE, 200).state_dict()
    assert len(pretrained) == 122, "the number of entries that torchvision's has"
    torch.testing.assert_close(model["layer3.0.downsample.0.weight"], pretrained["layer3.0.downsample.0.weight"])
    torch.testing.assert_close(model["bn1.weight"], pretrained["bn1.weight"])
    torch.testing.assert_close(model["fc.weight"], scratch["fc.weight"])
    assert model["fc.weight"].shape == (200, 512)


def test_the_last_layer_and_running_statistics_are_kept_where_they_fit(
    tmp_path: Path, pretrained: dict[str, Tensor]
) -> None:
    torch.save(pretrained, tmp_path / "w.pth")
    model = make_model(f"resnet18:norm=batch:weights={tmp_path / 'w.pth'}", SHAPE, 1000).state_dict()
    for name, value in pretrained.items():
        torch.testing.assert_close(model[name], value)


def refused(path: Path, shape: tuple[int, ...] = SHAPE) -> str:
    with pytest.raises(feddc.ConfigError) as caught:
        make_model(f"resnet18:weights={path}", shape, 10)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_files_that_are_refused(tmp_path: Path, pretrained: dict[str, Tensor]) -> None:
    path = tmp_path / "w.pth"
    assert "there is no weights file" in refused(path)
    assert "start from scratch" in refused(path)
    for content in (b"", b"text", pickle.dumps({"a": 1})):
        for name in ("w.pth", "w.safetensors"):
            (tmp_path / name).write_bytes(content)
            assert "cannot be read as model weights" in refused(tmp_path / name)
    torch.save([1, 2], path)
    assert "is not a state dict" in refused(path)
    torch.save({"conv1.weight": torch.zeros(3)}, path)
    assert "'conv1.weight' has shape (3,), not (64, 3, 7, 7)" in refused(path)
    torch.save({name: value for name, value in pretrained.items() if name != "layer4.1.bn2.bias"}, path)
    assert "'layer4.1.bn2.bias' is missing" in refused(path)
    torch.save(pretrained | {"layer5.weight": torch.zeros(1)}, path)
    assert "it has no 'layer5.weight'" in refused(path)
    torch.save(pretrained, path)
    assert "'conv1.weight' has shape (64, 3, 7, 7), not (64, 3, 3, 3)" in refused(path, (3, 32, 32))


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.mkdir, (Path("never"),)  # type: ignore[return-value]


def test_code_in_a_weights_file_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"conv1.weight": Evil()}, tmp_path / "w.pth")
    assert "cannot be read as model weights" in refused(tmp_path / "w.pth")
    assert not (tmp_path / "never").exists()
