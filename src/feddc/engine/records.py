"""What a simulation reports: a record per round, and the result of a whole run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

from .drift import Drift
from .growth import warning

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Rejected:
    """A client whose update the server did not let in, and what was wrong with it."""

    client: int
    reason: str


@dataclass(frozen=True)
class Site:
    """One site of a real federation in one round. None is what it did not say, or what was not due."""

    client: int
    samples: int
    """n_i: what it trains on."""
    measures: dict[str, float] | None = None
    """The global model on the samples that this site holds out: ``samples`` and the mean of every measure."""
    update: float | None = None
    """‖Δ_i‖."""
    drift: float | None = None
    """‖h_i‖, for methods whose clients keep a drift."""
    seconds: float | None = None
    """From the question to the answer, as the server saw it."""
    bytes_up: int = 0
    bytes_down: int = 0


@dataclass(frozen=True)
class Record:
    """One round. ``accuracy`` and ``loss`` are the global model's on the test set, None where it was not evaluated."""

    round: int
    """Rounds count from 1."""
    accuracy: float | None
    loss: float | None
    participants: tuple[int, ...]
    """The clients whose updates were averaged."""
    bytes_up: int
    """What the cohort sent to the server in this round."""
    bytes_down: int
    """What the server sent to the cohort in this round."""
    seconds: float
    rejected: tuple[Rejected, ...] = ()
    """The clients whose updates were bad; their state is as it was before the round."""
    dropped: tuple[int, ...] = ()
    """The clients that were sent the model and never answered."""
    drift: Drift | None = None
    """How far the clients were from the global model and from each other; None without diagnostics."""
    sites: tuple[Site, ...] = ()
    """The members of a real federation, one by one; a simulation has none."""
    epsilon: float | None = None
    """What all rounds so far have cost of the privacy budget; None without noise."""


@dataclass(frozen=True, repr=False)
class Result:
    """A finished run. A notebook shows it as a line and a picture; ``plot`` gives the picture."""

    records: tuple[Record, ...]
    model: nn.Module
    """The module with the trained weights, in evaluation mode."""

    @property
    def best_accuracy(self) -> float | None:
        return best_accuracy(self.records)

    @property
    def warning(self) -> str | None:
        """One sentence if a client's drift or variate grew without bound, with what to try; None if all is well."""
        return warning(self.records)

    def rounds_to(self, target: float) -> int | None:
        """The first round whose accuracy reaches ``target``, or None if none did."""
        return rounds_to(self.records, target)

    def bytes_to(self, target: float) -> int | None:
        """Bytes sent in both directions until ``target`` was reached, or None if it was not."""
        return bytes_to(self.records, target)

    def plot(self) -> Figure:
        """A matplotlib figure: accuracy and, where it was measured, drift over rounds; ``savefig`` keeps it."""
        from .show import plot

        return plot(self.records)

    def __repr__(self) -> str:
        from .show import summary

        return f"<Result: {summary(self.records)}>"

    def _repr_html_(self) -> str:
        from .show import as_html

        return as_html(self.records)


def best_accuracy(records: Sequence[Record]) -> float | None:
    return max((r.accuracy for r in records if r.accuracy is not None), default=None)


def rounds_to(records: Sequence[Record], target: float) -> int | None:
    return next((r.round for r in records if r.accuracy is not None and r.accuracy >= target), None)


def bytes_to(records: Sequence[Record], target: float) -> int | None:
    reached = rounds_to(records, target)
    return None if reached is None else sum(r.bytes_up + r.bytes_down for r in records if r.round <= reached)
