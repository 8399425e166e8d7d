"""Whether what clients keep from round to round stays bounded.

A client's drift or variate that grows in proportion to its rounds at most doubles from the first half of them to the
second. One that more than triples grows faster than that: the client is unstable, and training on only wastes time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ..algorithms import METHODS, make_method, steadier
from ..errors import either
from ..specs import Spec

if TYPE_CHECKING:
    from .records import Record

FEWEST = 8  # rounds of a client before its halves are compared
FACTOR = 3.0


class Growth(NamedTuple):
    """A client whose drift or variate grows without bound, and the round in which that was seen."""

    what: str
    client: int
    round: int
    before: float
    """The largest norm in the first half of the client's rounds."""
    after: float
    """The largest norm in the second half."""


class GrowthWatch:
    """Takes the records of a run as they come."""

    def __init__(self) -> None:
        self._largest: dict[tuple[str, int], list[float]] = defaultdict(list)
        """The largest norm of a client up to each of its rounds."""

    def add(self, record: Record) -> Growth | None:
        """What, with this record, is seen to grow without bound; of several the one that grew most."""
        drift = record.drift
        if drift is None:
            return None
        kept = {"drift": None if drift.drift is None else drift.gap, "variate": drift.variate}
        found: list[Growth] = []
        for what, norms in kept.items():
            for client, norm in zip(record.participants, norms or (), strict=False):
                largest = self._largest[what, client]
                largest.append(max(norm, largest[-1] if largest else norm))
                if len(largest) >= FEWEST:
                    before, after = largest[len(largest) // 2 - 1], largest[-1]
                    if after > FACTOR * before > 0:
                        found.append(Growth(what, client, record.round, before, after))
        return max(found, key=lambda each: each.after / each.before, default=None)


def warning(records: Iterable[Record], method: str = "") -> str | None:
    """One sentence on an unstable run, with what to try for a method of this text; None for a run that is stable."""
    watch = GrowthWatch()
    found = next((each for each in map(watch.add, records) if each), None)
    return None if found is None else growth_sentence(found, method)


def growth_sentence(found: Growth, method: str = "") -> str:
    """What grows, and what to try for a method of this text, such as ``feddc:alpha=0.1``."""
    known = method and Spec.parse(method).name in METHODS  # another's code is not run for a hint
    hints = [*(steadier(make_method(method)) if known else ()), "a smaller learning rate", "fewer local epochs"]
    return (
        f"the {found.what} of client {found.client} grows without bound, from {found.before:.3g} to {found.after:.3g} "
        f"by round {found.round}: try {either(hints)}"
    )
