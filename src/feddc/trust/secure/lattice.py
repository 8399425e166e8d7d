"""Real numbers as integers, so that masks can be added exactly.

A value is rounded to a multiple of ``step`` within ±``range`` and travels as that multiple. A method wants sums under
weights c_i: they become whole numbers too, in units of the largest, and the client sends weight × multiple. So every
sum that the server learns is one of the very numbers that the clients can compute from their rounded updates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ... import specs
from ...errors import check, check_count, check_number
from ...types import Rows
from .layout import Ints, bytes_up

FINE = 24
"""Bits of a weight: as many as a float32 has."""


@dataclass(frozen=True)
class Lattice:
    """Multiples of ``step`` from −range to range, in ``bits`` bits."""

    range: float = 8.0
    bits: int = 24

    def __post_init__(self) -> None:
        check_number("range", self.range, 0, above=True)
        check_count("bits", self.bits, 2, 32)

    @property
    def largest(self) -> int:
        return int(2 ** (self.bits - 1) - 1)

    @property
    def step(self) -> float:
        return self.range / self.largest

    def quantised(self, values: Rows) -> Ints:
        """The nearest multiples; what is out of range is the end of it, what is not a number is 0."""
        scaled = np.nan_to_num(values.detach().to(torch.float64).numpy() / self.step, posinf=np.inf, neginf=-np.inf)
        return np.rint(np.clip(scaled, -self.largest, self.largest)).astype(np.int64)

    def values(self, multiples: Ints, like: Rows) -> Rows:
        """The numbers that these multiples stand for, of the type of ``like``."""
        return self.scaled(multiples, self.step, like)

    def scaled(self, multiples: Ints, factor: float, like: Rows) -> Rows:
        """The numbers that these multiples of ``factor`` stand for, of the type of ``like``."""
        return torch.from_numpy(multiples * factor).to(like.dtype)

    def rounded(self, values: Rows) -> Rows:
        """What the server will use of these values, and so what a client has to commit."""
        return self.values(self.quantised(values), values)


@dataclass(frozen=True)
class Weighting:
    """One sum that is wanted: Σ c_i x_i for these weights of all clients that may take part."""

    units: tuple[int, ...]
    """c_i as a whole number of ``unit``."""
    unit: float

    @classmethod
    def of(cls, weights: Sequence[float]) -> Weighting:
        """Equal weights are 1 each; others have ``FINE`` bits."""
        largest = max(weights)
        check(min(weights) >= 0 and 0 < largest < math.inf, "weights of a secure sum must not be negative")
        unit = largest if min(weights) == largest else largest / 2**FINE
        return cls(tuple(round(each / unit) for each in weights), unit)

    def ring(self, lattice: Lattice) -> int:
        """The bits of the ring that cannot overflow, whoever takes part."""
        needed = math.ceil(math.log2(lattice.largest * sum(self.units) + 1)) + 1
        check(
            needed <= 64,
            f"{len(self.units)} clients and {lattice.bits} bits do not fit a ring of 64 bits: use fewer bits",
        )
        return 32 if needed <= 32 else 64


def distinct(columns: Mapping[str, Sequence[float]]) -> tuple[list[Weighting], dict[str, tuple[int, float]]]:
    """The sums that have to be masked for these weights by name, and for each name which one it is and times what.

    Weights in proportion to each other need one sum: with clients of equal size that is one for every method.
    """
    found: list[tuple[float, ...]] = []
    places: dict[str, tuple[int, float]] = {}
    for name, column in columns.items():
        largest = max(column)
        shape = tuple(round(each / largest, 9) for each in column)
        if shape not in found:
            found.append(shape)
        places[name] = (found.index(shape), largest)
    return [Weighting.of(shape) for shape in found], places


@dataclass(frozen=True)
class Secure:
    """Updates are rounded as secure aggregation needs it: to bits bits within ±range."""

    range: float = 8.0
    bits: int = 24

    def __post_init__(self) -> None:
        _ = self.lattice  # which checks both

    @property
    def lattice(self) -> Lattice:
        return Lattice(self.range, self.bits)

    def rings(self, columns: Mapping[str, Sequence[float]]) -> list[int]:
        """The bits of the ring of each sum that a method needs, from the weights of all clients by name."""
        return [each.ring(self.lattice) for each in distinct(columns)[0]]

    def bytes_up(self, columns: Mapping[str, Sequence[float]], parameters: int, cohort: int) -> int:
        """What a client sends in the four exchanges of a cohort of that size."""
        return bytes_up([(parameters, bits) for bits in self.rings(columns)], cohort)


@dataclass(frozen=True)
class Masked(Secure):
    """The four exchanges of secure aggregation, on Flower: the server learns sums only."""


SECURE: specs.Registry = {"simulated": Secure, "masked": Masked}


def make_secure(text: str) -> Secure:
    """From its text: ``simulated:bits=16:range=4``."""
    found: Secure = specs.make("secure", SECURE, text)
    return found
