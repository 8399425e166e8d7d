"""What a later run continues from: the server's state after every round, and the records up to it.

<folder>/<experiment>/server/state.safetensors
                            records.jsonl       a line for each round

The rest of that folder is in ``directory.py``.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from ...engine import Record
from ...engine.state import filled, named
from ...errors import RunError
from ...models import Buffers
from ...storage import tensors as files
from ...storage.atomic import write_whole
from ...storage.lock import Lock
from ..samples import Agreed

_FILTER = "filter of round "


@dataclass
class Progress:
    """Where an experiment stands after ``round``."""

    server: Any
    buffers: Buffers
    round: int = 0
    id: str = ""
    """The experiment's name and a random part: one begun anew under an old name does not meet the old one's state."""
    samples: dict[int, int] = field(default_factory=dict)
    """n_i of every member, as it said last."""
    seen: dict[int, int] = field(default_factory=dict)
    """The last round in which an answer of each client was used."""
    agreed: Agreed = Agreed()
    """The scale and class names of all sites, as agreed on when the experiment began."""
    away: dict[int, float] = field(default_factory=dict)
    """Since when members are not connected, as ``time.time`` says."""
    norm: float | None = None
    """The median length of an update in the last round."""
    factors: dict[int, float] = field(default_factory=dict)
    """What a robust rule multiplied each client's last used update by; told to it with its next question."""
    filters: dict[int, dict[str, NDArray[Any]]] = field(default_factory=dict)
    """What else the rule did in a round, as long as a client's last used update is of that round."""


class Checkpoint:
    """One experiment's folder on the server."""

    def __init__(self, folder: Path, experiment: str, setup: dict[str, Any]) -> None:
        """``setup`` is what has to stay the same for the experiment to be continued.

        RunError if another run has it: two servers would mix their records, and each undo the other's clients.
        """
        self.folder, self.experiment, self.setup = folder / experiment / "server", experiment, setup
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = Lock(self.folder)

    def close(self) -> None:
        """Let another run continue."""
        self._lock.release()

    def load(self, server: Any, buffers: Buffers) -> Progress:
        """Where the experiment stands; at its beginning, with this state, if there is nothing yet."""
        path = self.folder / "state.safetensors"
        if not path.exists():
            return Progress(server, buffers, id=f"{self.experiment}-{secrets.token_hex(4)}")
        tensors, about = files.read(path)
        try:
            begun = json.loads(about["setup"])
            progress = json.loads(about["progress"])
            self._check_same(begun)
            found = filled("server", server, tensors), filled("buffers", buffers, tensors)
            samples, seen = ({int(k): int(v) for k, v in progress[key].items()} for key in ("samples", "seen"))
            away = {int(k): float(v) for k, v in progress["away"].items()}
            agreed = Agreed.from_metadata(about)
            place = int(progress["round"]), str(progress["id"])
            factors = {int(k): float(v) for k, v in progress.get("factors", {}).items()}
            filters: dict[int, dict[str, NDArray[Any]]] = {}
            for name, tensor in tensors.items():
                if name.startswith(_FILTER):
                    round, _, rest = name.removeprefix(_FILTER).partition(":")
                    filters.setdefault(int(round), {})[rest] = tensor.numpy()
            return Progress(*found, *place, samples, seen, agreed, away, progress["norm"], factors, filters)
        except (KeyError, ValueError) as error:
            raise RunError(f"{path} is not a checkpoint of this model and method: {error}") from None

    def save(self, progress: Progress, record: Record) -> None:
        """Write a round. The record comes first: a crash in between leaves one that the next run replaces."""
        with (self.folder / "records.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(record)) + "\n")
        tensors = named("server", progress.server) | named("buffers", progress.buffers)
        where = {
            name: getattr(progress, name) for name in ("round", "id", "samples", "seen", "away", "norm", "factors")
        }
        for round, arrays in progress.filters.items():
            tensors |= {f"{_FILTER}{round}:{name}": torch.from_numpy(array) for name, array in arrays.items()}
        about = {"setup": json.dumps(self.setup), "progress": json.dumps(where), **progress.agreed.metadata()}
        files.write(self.folder / "state.safetensors", tensors, about)

    def drop_records_after(self, round: int) -> None:
        """Forget records of rounds that will be run again."""
        path = self.folder / "records.jsonl"
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = [line for line in lines if line.endswith("\n") and json.loads(line)["round"] <= round]
            write_whole(path, "".join(kept))

    def _check_same(self, begun: dict[str, Any]) -> None:
        for key, value in self.setup.items():
            if begun.get(key) != value:
                raise RunError(
                    f"experiment '{self.experiment}' was begun with {key}={begun.get(key)}, not {value}: "
                    "set it back to continue, or choose another experiment name"
                )
