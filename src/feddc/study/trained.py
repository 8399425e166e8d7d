"""A trained model with what belongs to it: preparation, class names, task. Two lines from a run to predictions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_model as load_weights
from torch import Tensor, nn

from ..data.inputs import Inputs, ready
from ..data.preparation import Preparation
from ..engine.evaluation import output_of
from ..errors import RunError, check, first_line
from ..models import make_model
from .config import from_toml
from .runinfo import read_info


@dataclass(frozen=True)
class TrainedModel:
    """A model that is ready for new samples: ``model.predict("new.csv")``, ``model.predict(x)``."""

    module: nn.Module
    task: str
    """The name of what it learned, such as Classification."""
    preparation: Preparation | None = None

    @torch.no_grad()
    def outputs(self, samples: Any) -> Tensor:
        """What the module gives for raw samples: an array or tensor as in training, a file, or a list of files."""
        found = output_of(self.module.eval(), ready(self._prepared(samples), next(self.module.parameters()).dtype))
        check(isinstance(found, Tensor), "the model gives no tensor: call its module yourself")
        result: Tensor = found
        return result

    def predict(self, samples: Any) -> list[Any]:
        """A class name or number for each sample, a number or several for regression, 0 or 1 for each label."""
        found = self.outputs(samples)
        if self.task in ("Classification", "NextToken", "Segmentation"):
            best = found.argmax(dim=-1 if self.task == "NextToken" else 1)
            names = self.preparation.classes if self.preparation else ()
            return [names[i] for i in best.tolist()] if names and best.ndim == 1 else best.tolist()
        if self.task == "MultiLabel":
            found = (found > 0).to(torch.int64)
        return found.squeeze(-1).tolist() if found.shape[-1] == 1 else found.tolist()

    def _prepared(self, samples: Any) -> Inputs:
        if isinstance(samples, str | Path):
            samples = [samples]
        files = isinstance(samples, Sequence) and len(samples) > 0 and isinstance(samples[0], str | Path)
        if files:
            check(self.preparation is not None, "this run did not keep how its samples were read: give an array")
            assert self.preparation is not None
            return self.preparation.read([Path(each) for each in samples])
        return samples if self.preparation is None else self.preparation.apply(samples)


def load_model(run: str | Path, module: nn.Module | None = None) -> TrainedModel:
    """The model of a run that has ended, with its preparation; ``module`` is needed for a class of your own."""
    path = Path(run)
    weights = path / "model.safetensors"
    if not path.is_dir():
        raise RunError(f"there is no run {path}: give the directory that `feddc run --out` left")
    if not weights.is_file():
        raise RunError(f"{path} has no trained model: `feddc resume {path}` ends a run that was interrupted")
    info = read_info(path)
    if module is None:
        check("shape" in info, f"{path} does not say what its model is: give load_model an initial module")
        config = from_toml(path / "config.toml")
        module = make_model(config.model, tuple(info["shape"]), int(info["classes"]), 0)
    try:
        load_weights(module, weights)
    except (SafetensorError, RuntimeError) as error:
        raise RunError(
            f"{weights} does not fit the model: {first_line(error)}; give a module like the one trained"
        ) from error
    kept = path / "preparation.json"
    found = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else None
    return TrainedModel(module.eval(), str(info.get("task", "Classification")), found and Preparation.from_json(found))
