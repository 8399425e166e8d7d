"""Randomness keyed by (seed, purpose, round, client), never drawn from a shared stream.

What is drawn for a client in a round does not depend on the executor, the number of workers, the order of clients, or
an interruption.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

Purpose: TypeAlias = Literal["cohort", "batches", "torch", "augment", "dropout", "noise", "broadcast", "update"]
# Numbers, once used, stay: they are part of what makes a seed reproducible.
_NUMBERS: dict[Purpose, int] = {
    "cohort": 1,
    "batches": 2,
    "torch": 3,
    "augment": 4,
    "dropout": 5,
    "noise": 6,
    "broadcast": 7,
    "update": 8,
}


def generator(seed: int, purpose: Purpose, round: int, client: int = 0) -> np.random.Generator:
    """A fresh generator for one purpose of one client in one round (rounds count from 1)."""
    return np.random.default_rng([seed, _NUMBERS[purpose], round, client])
