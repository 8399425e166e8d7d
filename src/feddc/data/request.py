"""What a loader is asked for: the first argument of every function in DATA."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .federation import Federation

CLIENTS = 20


@dataclass(frozen=True)
class Request:
    """How many clients, which split, which seed, and the data folder; None takes what is natural for the data."""

    clients: int | None = None
    split: str | None = None
    seed: int = 0
    data_dir: str | Path | None = None

    def federation(self, x: Any, y: Any, *, test: tuple[Any, Any] | None, name: str, classes: int) -> Federation:
        """Samples that belong to nobody yet, split among the clients that were asked for (20 by default, iid)."""
        clients = CLIENTS if self.clients is None else self.clients
        return Federation.from_arrays(
            x, y, clients=clients, split=self.split or "iid", test=test, classes=classes, seed=self.seed, name=name
        )
