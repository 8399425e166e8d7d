"""What a later run continues from: the server's state after every round, and the records up to it.

<folder>/<experiment>/server/state.safetensors
                            records.jsonl       a line for each round
                            kept/000012.safetensors    the state after a round, for ``keep`` rounds back
                            undone-1.jsonl      the records of rounds that were taken back

The rest of that folder is in ``directory.py``.
"""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import shutil
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from ...engine import Record
from ...engine.state import filled, named
from ...errors import RunError
from ...models import Buffers
from ...storage import tensors as tensor_files
from ...storage.atomic import write_whole
from ...storage.lock import Lock
from ...tasks import Score
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
    score: Score = Score()
    """By what the members judge a model."""
    away: dict[int, float] = field(default_factory=dict)
    """Since when members are not connected, as ``time.time`` says."""
    norm: float | None = None
    """The median length of an update in the last round."""
    factors: dict[int, float] = field(default_factory=dict)
    """What a robust rule multiplied each client's last used update by; told to it with its next question."""
    filters: dict[int, dict[str, NDArray[Any]]] = field(default_factory=dict)
    """What else the rule did in a round, as long as a client's last used update is of that round."""
    undone: int = 0
    """How many rounds were run and taken back: what they cost in privacy stays spent."""
    kept: dict[int, dict[int, int]] = field(default_factory=dict)
    """The rounds whose state is kept to go back to, and ``seen`` as it was then."""

    def oldest(self, client: int) -> int:
        """The earliest round of which this client's state may be needed again."""
        return min((seen.get(client, 0) for seen in self.kept.values()), default=self.seen.get(client, 0))

    def become(self, other: Progress) -> None:
        """Stand where ``other`` does."""
        for each in dataclasses.fields(Progress):
            setattr(self, each.name, getattr(other, each.name))


class Checkpoint:
    """One experiment's folder on the server."""

    def __init__(self, folder: Path, experiment: str, setup: dict[str, Any], keep: int = 0) -> None:
        """``setup`` is what has to stay the same for the experiment to be continued, ``keep`` how many rounds can be
        taken back.

        RunError if another run has it: two servers would mix their records, and each undo the other's clients.
        """
        self.folder, self.experiment, self.setup = folder / experiment / "server", experiment, setup
        self.keep = keep
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = Lock(self.folder)

    def close(self) -> None:
        """Let another run continue."""
        self._lock.release()

    def load(self, server: Any, buffers: Buffers, changing: Collection[str] = ()) -> Progress:
        """Where the experiment stands; at its beginning, with this state, if there is nothing yet.

        ``changing`` are settings that need not be those that it was begun with.
        """
        path = self.folder / "state.safetensors"
        if not path.exists():
            return Progress(server, buffers, id=f"{self.experiment}-{secrets.token_hex(4)}")
        progress = self._read(path, server, buffers, changing)
        for file in (self.folder / "kept").glob("*.safetensors"):
            if file.stem.isdecimal() and int(file.stem) <= progress.round:
                progress.kept[int(file.stem)] = _seen(json.loads(tensor_files.read_about(file)["progress"]))
        return progress

    def _read(self, path: Path, server: Any, buffers: Buffers, changing: Collection[str]) -> Progress:
        tensors, about = tensor_files.read(path)
        try:
            self._check_same(json.loads(about["setup"]), changing)
            progress = json.loads(about["progress"])
            found = filled("server", server, tensors), filled("buffers", buffers, tensors)
            samples = {int(k): int(v) for k, v in progress["samples"].items()}
            away = {int(k): float(v) for k, v in progress["away"].items()}
            agreed = Agreed.from_metadata(about)
            place = int(progress["round"]), str(progress["id"])
            factors = {int(k): float(v) for k, v in progress.get("factors", {}).items()}
            filters: dict[int, dict[str, NDArray[Any]]] = {}
            for name, tensor in tensors.items():
                if name.startswith(_FILTER):
                    round, _, rest = name.removeprefix(_FILTER).partition(":")
                    filters.setdefault(int(round), {})[rest] = tensor.numpy()
            score, undone = Score(**progress.get("score", {})), int(progress.get("undone", 0))
            seen, norm = _seen(progress), progress["norm"]
            return Progress(*found, *place, samples, seen, agreed, score, away, norm, factors, filters, undone)
        except (KeyError, ValueError) as error:
            raise RunError(f"{path} is not a checkpoint of this model and method: {error}") from None

    def save(self, progress: Progress, record: Record) -> None:
        """Write a round. The record comes first: a crash in between leaves one that the next run replaces."""
        with (self.folder / "records.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(record)) + "\n")
        self.write(progress)
        self._keep(progress)

    def write(self, progress: Progress) -> None:
        """Write where the experiment stands."""
        tensors = named("server", progress.server) | named("buffers", progress.buffers)
        names = ("round", "id", "samples", "seen", "away", "norm", "factors", "undone")
        where = {name: getattr(progress, name) for name in names}
        for round, arrays in progress.filters.items():
            tensors |= {f"{_FILTER}{round}:{name}": torch.from_numpy(array) for name, array in arrays.items()}
        where["score"] = dataclasses.asdict(progress.score)
        about = {"setup": json.dumps(self.setup), "progress": json.dumps(where), **progress.agreed.metadata()}
        tensor_files.write(self.folder / "state.safetensors", tensors, about)

    def earlier(self, progress: Progress, round: int, changing: Collection[str]) -> Progress:
        """Where the experiment stood after an earlier round; RunError if that is not kept."""
        if round not in progress.kept:
            rounds = ", ".join(map(str, sorted(progress.kept))) or "no round"
            raise RunError(f"the server keeps its state of {rounds}, not of round {round}: keep says how many rounds")
        found = self._read(self._kept(round), progress.server, progress.buffers, changing)
        found.kept = {each: seen for each, seen in progress.kept.items() if each <= round}
        found.undone = progress.undone + progress.round - round
        return found

    def undo(self, progress: Progress, earlier: Progress) -> str:
        """Go back from one to the other; the name of the file in which the records of the rounds between are now."""
        number = 1 + len(list(self.folder.glob("undone-*.jsonl")))
        path, name = self.folder / "records.jsonl", f"undone-{number}.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        undone = [line for line in lines if earlier.round < json.loads(line)["round"] <= progress.round]
        write_whole(self.folder / name, "".join(undone))
        self.write(earlier)
        self.drop_records_after(earlier.round)
        for round in progress.kept.keys() - earlier.kept.keys():
            self._kept(round).unlink(missing_ok=True)
        progress.become(earlier)
        return name

    def _keep(self, progress: Progress) -> None:
        """Keep the state just written, and forget those too old to go back to."""
        if self.keep:
            place = self._kept(progress.round)
            place.parent.mkdir(exist_ok=True)
            place.unlink(missing_ok=True)
            try:
                os.link(self.folder / "state.safetensors", place)  # it is replaced, never written to: no second copy
            except OSError:  # a file system without links
                shutil.copyfile(self.folder / "state.safetensors", place)
            progress.kept[progress.round] = dict(progress.seen)
        for round in [each for each in progress.kept if each < progress.round - self.keep]:
            self._kept(round).unlink(missing_ok=True)
            del progress.kept[round]

    def _kept(self, round: int) -> Path:
        return self.folder / "kept" / f"{round:06d}.safetensors"

    def drop_records_after(self, round: int) -> None:
        """Forget records of rounds that will be run again."""
        path = self.folder / "records.jsonl"
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = [line for line in lines if line.endswith("\n") and json.loads(line)["round"] <= round]
            write_whole(path, "".join(kept))

    def _check_same(self, begun: dict[str, Any], changing: Collection[str]) -> None:
        for key in {**self.setup, **begun}:
            was, value = begun.get(key), self.setup.get(key)
            counted = key != "clients" or None not in (was, value)  # there only where updates are guarded
            if was != value and counted and key not in changing:
                raise RunError(
                    f"experiment '{self.experiment}' was begun with {key}={was}, not {value}: "
                    "set it back to continue, or choose another experiment name"
                )


def _seen(progress: dict[str, Any]) -> dict[int, int]:
    return {int(client): int(round) for client, round in progress["seen"].items()}
