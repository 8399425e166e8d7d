"""What a loader is asked for: the first argument of every function in DATA."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .federation import Federation


@dataclass(frozen=True)
class Request:
    """Into how many clients to divide the samples, by which split and seed, and the data folder.

    Without a split the data decides: the clients that it comes with, or else iid parts. ``data_dir`` is None for the
    usual folder.
    """

    clients: int = 20
    split: str | None = None
    seed: int = 0
    data_dir: str | Path | None = None

    def federation(self, x: Any, y: Any, *, test: tuple[Any, Any] | None, name: str, classes: int) -> Federation:
        """Samples that belong to nobody yet, divided among the clients."""
        return Federation.from_arrays(
            x, y, clients=self.clients, split=self.split or "iid", test=test, classes=classes, seed=self.seed, name=name
        )
