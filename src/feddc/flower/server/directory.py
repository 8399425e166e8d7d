"""A run on Flower is a run directory: `feddc report` and `feddc watch` read it, also while it is under way.

config.toml, run.json, records.jsonl, summary.json    as in a simulation's (see ``study/rundir.py``)
state.safetensors    what a later run continues from
model.safetensors    the model after the last round
best.safetensors     the model after the round with the best score
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from torch import nn

from ...algorithms import Algorithm, method_name
from ...engine import Record
from ...errors import FedDCError
from ...storage import tensors
from ...storage.atomic import write_whole
from ...study.config import Config, to_toml
from ...study.rundir import read_records
from ...study.runinfo import FORMAT, versions
from ...study.runner import Outcome
from ..samples import Agreed
from ..settings import Settings, method_config

ARITHMETIC = "flower"


class Directory:
    """The parts of a run directory that others read."""

    def __init__(self, path: Path, config: Config) -> None:
        self.path, self.config = path, config

    def begin(self) -> None:
        """Say what is run here; a run that had ended is under way again."""
        write_whole(self.path / "config.toml", to_toml(self.config))
        if not (self.path / "run.json").exists():
            info = {"format": FORMAT, "arithmetic": ARITHMETIC, "versions": versions()}
            write_whole(self.path / "run.json", json.dumps(info, indent=2) + "\n")
        (self.path / "summary.json").unlink(missing_ok=True)

    def keep_models(self, module: nn.Module, record: Record, agreed: Agreed) -> None:
        """Write the model of this round, and keep it as the best one if its score is."""
        about = {"round": str(record.round), **agreed.metadata()}
        tensors.write(self.path / "model.safetensors", module.state_dict(), about)
        if record.value is not None and all(
            record.score.reached(record.value, value) for value in self._scores() if value is not None
        ):
            tensors.write(self.path / "best.safetensors", module.state_dict(), about)

    def go_back(self, module: nn.Module, round: int, agreed: Agreed) -> None:
        """The model is that of an earlier round; a best one of a later round is none any more."""
        tensors.write(self.path / "model.safetensors", module.state_dict(), {"round": str(round), **agreed.metadata()})
        best = self.path / "best.safetensors"
        if best.exists() and int(tensors.read_about(best).get("round", 0)) > round:
            best.rename(self.path / "undone-best.safetensors")

    def end(self, error: FedDCError | None = None) -> None:
        """Write the summary: the run has ended."""
        records = read_records(self.path / "records.jsonl")
        summary = Outcome(self.config, records, "the sites of a federation, over Flower", error).summary()
        write_whole(self.path / "summary.json", json.dumps({"format": FORMAT} | summary, indent=2) + "\n")

    def _scores(self) -> list[float | None]:
        return [record.value for record in read_records(self.path / "records.jsonl")]


def configuration(algorithm: Algorithm, module: nn.Module, settings: Settings) -> Config:
    """The settings of a run on Flower, as the configuration of a run."""
    values: dict[str, Any] = {**dataclasses.asdict(settings.training), **vars(settings)}
    values |= {"method": method_text(algorithm), "data": settings.experiment, "model": type(module).__name__.lower()}
    known = {field.name for field in dataclasses.fields(Config)}
    return Config(**{name: value for name, value in values.items() if name in known})


def method_text(algorithm: Algorithm) -> str:
    """The method and its options as they are written."""
    options = {key.removeprefix("method."): value for key, value in method_config(algorithm).items() if "." in key}
    return ":".join([method_name(algorithm), *(f"{name}={value}" for name, value in options.items())])
