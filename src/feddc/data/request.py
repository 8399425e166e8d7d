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

    def federation(self, x: Any, y: Any, **options: Any) -> Federation:
        """Samples that belong to nobody yet, divided among the clients; options as for ``Federation.from_arrays``."""
        divided: Any = {"clients": self.clients, "split": self.split or "iid", "seed": self.seed}
        return Federation.from_arrays(x, y, **divided, **options)
