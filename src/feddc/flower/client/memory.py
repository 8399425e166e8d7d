"""A client's state between rounds, on its own disk: one file for each round in which it trained.

A broadcast says in which round the server last used an answer of this client; the file of that round is the client's
state, and all later ones are deleted. So a new state becomes current only when the server is known to have the answer
that belongs to it, and one whose answer was lost is rolled back. Earlier ones stay as long as the server may take
rounds back to them, up to a number that the site decides. A client whose file is gone begins again from the initial
state, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from logging import getLogger
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from ...errors import RunError
from ...storage import tensors as tensor_files

MOST_STATES = 20
"""Unless the site's config says ``most-states``."""


class Remembered(NamedTuple):
    """The state to train from, vectors (P,), and what is known of it."""

    state: Any
    lost: bool = False
    """Whether it is the initial one because the one asked for is gone."""
    samples: int | None = None
    """With how many samples the client trained last."""


class ClientMemory:
    """The states of one client in one experiment."""

    def __init__(self, folder: Path, most: int = MOST_STATES) -> None:
        """At most ``most`` states stay on disk."""
        self.folder, self.most = folder, most

    def recall(self, round: int, initial: Any, oldest: int | None = None) -> Remembered:
        """The state after ``round``, the initial one for round 0; those from ``oldest`` on stay, others are forgotten.

        What waits for a decision of the server is forgotten too: by now ``round`` is decided.
        """
        if not initial:  # a method whose clients keep nothing
            return Remembered(initial)
        stay = [each for each in self.rounds() if (round if oldest is None else oldest) <= each <= round][-self.most :]
        for path in self.folder.glob("*.safetensors"):
            if path not in map(self._path, stay):
                path.unlink()
        if round == 0:
            return Remembered(initial)
        try:
            return Remembered(*self._read(round, initial))
        except RunError as error:
            getLogger("flwr").warning("feddc: this client begins again from the initial state: %s", error)
            return Remembered(initial, True)

    def rounds(self) -> list[int]:
        """The rounds after which a state is known, or will be when the server says what it used, in order."""
        found = (path.name.partition(".")[0] for path in self.folder.glob("*.safetensors"))
        return sorted({int(name) for name in found if name.isdecimal()})

    def keep(self, round: int, state: Any, samples: int | None = None) -> None:
        """Write the state after ``round``, trained with so many samples; it counts once the server asks for it."""
        if state:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            about = {"round": str(round)} | ({} if samples is None else {"samples": str(samples)})
            tensor_files.write(self._path(round), dict(zip(state._fields, state, strict=True)), about)

    def wait(self, round: int, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
        """Keep what the state after ``round`` is computed from once the server has decided what it uses."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        tensor_files.write(self._waiting(round), dict(tensors), dict(about))

    def waiting(self, round: int) -> tuple[dict[str, Tensor], dict[str, str]]:
        """What waits for the server's decision on ``round``; RunError if nothing does, or it is decided."""
        if self._path(round).exists():
            raise RunError(f"round {round} is decided")
        return tensor_files.read(self._waiting(round))

    def _path(self, round: int) -> Path:
        return self.folder / f"{round:06d}.safetensors"

    def _waiting(self, round: int) -> Path:
        return self.folder / f"{round:06d}.waiting.safetensors"

    def _read(self, round: int, initial: Any) -> tuple[Any, bool, int | None]:
        path = self._path(round)
        tensors, about = tensor_files.read(path)
        wanted = dict(zip(initial._fields, initial, strict=True))
        same = tensors.keys() == wanted.keys() and about.get("round") == str(round)
        if not same or any(tensors[name].shape != wanted[name].shape for name in wanted):
            raise RunError(f"{path} is not a state of this method and model")
        samples = about.get("samples", "")
        return type(initial)(*(tensors[name] for name in wanted)), False, int(samples) if samples.isdecimal() else None
