"""Who takes part in which round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, check, check_count, check_number
from ..options import Sampling
from .keys import generator


class Cohorts(Protocol):
    @property
    def mean_size(self) -> float:
        """How many clients take part in a round, on average."""
        ...

    def draw(self, seed: int, round: int) -> NDArray[np.int64]:
        """The clients of a round (from 1), in ascending order."""
        ...


@dataclass(frozen=True)
class Bernoulli:
    """Each client joins independently with probability p; redrawn while nobody does, unless ``empty``."""

    clients: int
    p: float
    empty: bool = False
    """Whether a round may have nobody: privacy is worked out for clients that join whatever the others do."""

    @property
    def mean_size(self) -> float:
        return self.clients * self.p

    def draw(self, seed: int, round: int) -> NDArray[np.int64]:
        rng = generator(seed, "cohort", round)
        while True:
            cohort = np.flatnonzero(rng.random(self.clients) < self.p)
            if len(cohort) or self.empty:
                return cohort


@dataclass(frozen=True)
class FixedSize:
    """A fixed number of clients, drawn without replacement."""

    clients: int
    size: int

    @property
    def mean_size(self) -> float:
        return self.size

    def draw(self, seed: int, round: int) -> NDArray[np.int64]:
        return np.sort(generator(seed, "cohort", round).choice(self.clients, self.size, replace=False))


@dataclass(frozen=True)
class Given:
    """The rows of a (rounds × clients) mask."""

    mask: NDArray[np.bool_]

    @property
    def mean_size(self) -> float:
        return float(self.mask.sum(axis=1).mean())

    def draw(self, seed: int, round: int) -> NDArray[np.int64]:
        return np.flatnonzero(self.mask[round - 1])


def answering(cohort: list[int], clients: int, dropout: float, seed: int, round: int) -> tuple[list[int], list[int]]:
    """Who of a cohort answers, and who drops out: each with probability ``dropout``, whoever else is in the cohort."""
    if not dropout:
        return cohort, []
    gone = generator(seed, "dropout", round).random(clients) < dropout
    return [each for each in cohort if not gone[each]], [each for each in cohort if gone[each]]


def as_mask(given: Any, rounds: int, clients: int, name: str, nobody: str) -> NDArray[np.bool_]:
    """A rounds × clients mask that leaves no round empty; one sentence if it is not that."""
    wanted = f"{name} must be a mask of shape ({rounds} rounds, {clients} clients)"
    try:
        mask = np.asarray(given)
    except ValueError:  # rows of different length
        raise ConfigError(wanted) from None
    good = mask.ndim == 2 and len(mask) >= rounds and mask.shape[1] == clients
    check(good, f"{wanted}, not {mask.shape}")
    check(bool(np.isin(mask, (0, 1)).all()), f"{name} must be a mask of true and false (or 1 and 0)")
    empty = np.flatnonzero(~mask[:rounds].astype(bool).any(axis=1))
    check(len(empty) == 0, f"{name} has {nobody} in round {empty[0] + 1 if len(empty) else 0}")
    return mask.astype(bool)


def make_cohorts(clients: int, rounds: int, sampling: Sampling, cohorts: Any = None) -> Cohorts:
    """Who takes part: as ``sampling`` says, or the mask ``cohorts``; everyone, if neither says anything."""
    participation, cohort_size = sampling.participation, sampling.cohort_size
    given = [participation is not None, cohort_size is not None, cohorts is not None]
    check(sum(given) <= 1, "give only one of participation=…, cohort_size=… and cohorts=…")
    if cohorts is not None:
        return Given(as_mask(cohorts, rounds, clients, "cohorts", "nobody"))
    if cohort_size is not None:
        check_count("cohort_size", cohort_size)
        check(cohort_size <= clients, f"cohort_size is {cohort_size}, but there are only {clients} clients")
        return FixedSize(clients, cohort_size)
    p = 1.0 if participation is None else participation
    check_number("participation", p, 0, 1, above=True)
    check(p * clients >= 1e-3, f"participation is {p:g}: with {clients} clients nearly every cohort would be empty")
    return Bernoulli(clients, p)
