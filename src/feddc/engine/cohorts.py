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


def make_cohorts(clients: int, rounds: int, sampling: Sampling, cohorts: Any = None) -> Cohorts:
    """Who takes part: as ``sampling`` says, or the mask ``cohorts``; everyone, if neither says anything."""
    participation, cohort_size = sampling.participation, sampling.cohort_size
    given = [participation is not None, cohort_size is not None, cohorts is not None]
    check(sum(given) <= 1, "give only one of participation=…, cohort_size=… and cohorts=…")
    if cohorts is not None:
        try:
            mask = np.asarray(cohorts)
        except ValueError:  # rows of different length
            raise ConfigError(f"cohorts must be a mask of shape ({rounds} rounds, {clients} clients)") from None
        if mask.ndim != 2 or mask.shape[0] < rounds or mask.shape[1] != clients:
            raise ConfigError(f"cohorts must be a mask of shape ({rounds} rounds, {clients} clients), not {mask.shape}")
        if not np.isin(mask, (0, 1)).all():
            raise ConfigError("cohorts must be a mask of true and false (or 1 and 0)")
        mask = mask.astype(bool)
        empty = np.flatnonzero(~mask[:rounds].any(axis=1))
        check(len(empty) == 0, f"cohorts has nobody in round {empty[0] + 1 if len(empty) else 0}")
        return Given(mask)
    if cohort_size is not None:
        check_count("cohort_size", cohort_size)
        check(cohort_size <= clients, f"cohort_size is {cohort_size}, but there are only {clients} clients")
        return FixedSize(clients, cohort_size)
    p = 1.0 if participation is None else participation
    check_number("participation", p, 0, 1, above=True)
    check(p * clients >= 1e-3, f"participation is {p:g}: with {clients} clients nearly every cohort would be empty")
    return Bernoulli(clients, p)
