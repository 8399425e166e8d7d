"""Pre-trained weights from a local file in torchvision's state-dict layout."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ..errors import ConfigError, first_line

# What BatchNorm keeps beside its weights; GroupNorm has no place for it.
RUNNING = ("running_mean", "running_var", "num_batches_tracked")


def load_weights(model: nn.Module, path: str, head: str) -> None:
    """Fill ``model`` from ``path``: safetensors, or a torch file that holds nothing but tensors.

    The layer named ``head`` stays fresh if the file's has another number of classes. BatchNorm's scale and shift go to
    whichever norm the model has; its running statistics are dropped if that norm keeps none.
    """
    given, wanted = _read(Path(path)), model.state_dict()
    fresh = given.get(f"{head}.bias", torch.empty(0)).shape != wanted[f"{head}.bias"].shape
    chosen = {}
    for name, value in wanted.items():
        if fresh and name.startswith(f"{head}."):
            chosen[name] = value
            continue
        if name not in given:
            raise ConfigError(f"weights {path} are not those of this model: '{name}' is missing")
        if given[name].shape != value.shape:
            shapes = f"{tuple(given[name].shape)}, not {tuple(value.shape)}"
            raise ConfigError(f"weights {path} are not those of this model: '{name}' has shape {shapes}")
        chosen[name] = given[name]
    extra = [name for name in given if name not in wanted and name.rpartition(".")[2] not in RUNNING]
    if extra:
        raise ConfigError(f"weights {path} are not those of this model: it has no '{extra[0]}'")
    model.load_state_dict(chosen)


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise ConfigError(f"there is no weights file {path}: leave weights= out to start from scratch")
    try:
        # weights_only admits tensors and nothing that could run.
        found = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except Exception as error:  # bytes from anywhere make these readers raise anything; all of it means the same
        raise ConfigError(f"{path} cannot be read as model weights: {first_line(error)}") from error
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise ConfigError(f"{path} is not a state dict, a table of names and tensors")
    return found
