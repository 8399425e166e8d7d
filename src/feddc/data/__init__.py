"""Data sets by name. To add one: write a function that returns a Federation, add its line to DATA."""

from __future__ import annotations

from .. import specs
from .federation import Federation
from .partition import SPLITS
from .sources import digits, synthetic

DATA: specs.Table = {"digits": digits, "synthetic": synthetic}

__all__ = ["DATA", "SPLITS", "Federation", "load"]


def load(name: str, *, clients: int = 20, split: str | None = None, seed: int = 0) -> Federation:
    """A federation by name: ``load("digits", clients=20, split="dirichlet:0.1", seed=0)``.

    ``split=None`` takes what is natural for the data: iid parts, or the clients that the data comes with.
    """
    federation: Federation = specs.make("data set", DATA, name, clients, split, seed)
    return federation
