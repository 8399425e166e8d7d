"""Randomness keyed by (seed, purpose, round, client), never drawn from a shared stream.

What is drawn for a client in a round does not depend on the executor, the number of workers, the order of clients, or
an interruption.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np

Purpose: TypeAlias = Literal["cohort", "batches", "torch", "augment", "dropout", "noise", "broadcast", "update"]
# A purpose's place is part of what makes a seed reproducible: a new one goes to the end.
_NUMBERS: dict[Purpose, int] = {name: place for place, name in enumerate(get_args(Purpose), start=1)}


def generator(seed: int, purpose: Purpose, round: int, client: int = 0) -> np.random.Generator:
    """A fresh generator for one purpose of one client in one round (rounds count from 1)."""
    return np.random.default_rng([seed, _NUMBERS[purpose], round, client])
