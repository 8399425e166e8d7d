"""What a simulation reports: a record per round, and the result of a whole run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from ..errors import FedDCError, check
from ..tasks import Score
from .drift import Drift, short_number
from .growth import warning

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Rejected:
    """A client whose update the server rejected, and why."""

    client: int
    reason: str


@dataclass(frozen=True)
class Site:
    """One site of a real federation in one round. None means not reported, or not due."""

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
class ClientScores:
    """The score on every client's own held-out samples."""

    scores: tuple[float | None, ...]
    """One for each client; None if it holds nothing out, or if the score is not defined on its samples."""
    mean: float
    """The plain mean over clients, whatever their size."""
    std: float
    worst: float
    """The mean of the worst tenth of the clients, of at least one."""

    @classmethod
    def of(cls, scores: Sequence[float | None], score: Score) -> ClientScores | None:
        """From each client's score; None where nobody has one."""
        known = sorted((each for each in scores if each is not None), reverse=not score.higher_is_better)
        if not known:
            return None
        mean = sum(known) / len(known)
        spread = math.sqrt(sum((each - mean) ** 2 for each in known) / len(known))
        last = known[: math.ceil(len(known) / 10)]
        short = tuple(None if each is None else short_number(each) for each in scores)
        return cls(short, mean, spread, sum(last) / len(last))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ClientScores:
        return cls(**{**values, "scores": tuple(values["scores"])})


@dataclass(frozen=True)
class Record:
    """One round. ``metrics`` are those of the global model on the test set, empty if it was not evaluated.

    ``accuracy`` and ``loss`` are two of them, or None; ``value`` is the task's score.
    """

    round: int
    """Rounds count from 1."""
    metrics: Mapping[str, float]
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
    """The members of a real federation, one by one; empty in a simulation."""
    epsilon: float | None = None
    """What all rounds so far have cost of the privacy budget; None without noise."""
    score: Score = Score()
    """Which metric decides, and in which direction."""
    clients: ClientScores | None = None
    """The global model on every client's own held-out samples; None where it was not evaluated there."""
    personal: ClientScores | None = None
    """Each client's own model, after local training from the global one, on the same samples; None unless asked for."""
    validation: Mapping[str, float] | None = None
    """The metrics on the samples set aside for choosing hyper-parameters; None where there are none."""

    @property
    def accuracy(self) -> float | None:
        return self.metrics.get("accuracy")

    @property
    def loss(self) -> float | None:
        return self.metrics.get("loss")

    @property
    def value(self) -> float | None:
        """The metric that decides, None where it was not measured."""
        return self.metrics.get(self.score.name)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Record:
        """The inverse of ``dataclasses.asdict`` after a journey through JSON; also reads records of older versions.

        Raises KeyError, TypeError or ValueError where it is no record.
        """
        fields = dict(values)
        if "metrics" not in fields:  # up to version 0.1 a record had these two and no others
            old = {name: fields.pop(name) for name in ("accuracy", "loss")}
            fields["metrics"] = {name: value for name, value in old.items() if value is not None}
        drift, score = fields.get("drift"), fields.get("score")
        fields["drift"] = None if drift is None else Drift.from_json(drift)
        fields["score"] = Score() if score is None else Score(**score)
        fields["participants"] = tuple(fields["participants"])
        fields["rejected"] = tuple(Rejected(**each) for each in fields.get("rejected", ()))
        fields["dropped"] = tuple(fields.get("dropped", ()))
        fields["sites"] = tuple(Site(**each) for each in fields.get("sites", ()))
        for name in ("clients", "personal"):
            found = fields.get(name)
            fields[name] = None if found is None else ClientScores.from_json(found)
        return cls(**fields)


class Course:
    """What the records of a run add up to."""

    records: tuple[Record, ...]

    @property
    def best(self) -> float | None:
        """The best value of the task's score: the highest accuracy, the lowest error."""
        return score_in(self.records).best([r.value for r in self.records if r.value is not None])

    @property
    def best_accuracy(self) -> float | None:
        return max((r.accuracy for r in self.records if r.accuracy is not None), default=None)

    def rounds_to(self, target: float) -> int | None:
        """The first round whose score reaches ``target``, a share such as 0.95 for accuracy; None if none did."""
        share = not score_in(self.records).percent or target <= 1
        check(share, f"target must be a share, at most 1: {target:g} % is {target / 100:g}")
        return next((r.round for r in self.records if r.value is not None and r.score.reached(r.value, target)), None)

    def bytes_to(self, target: float) -> int | None:
        """Bytes sent in both directions until ``target`` was reached, or None if it was not."""
        reached = self.rounds_to(target)
        return None if reached is None else sum(r.bytes_up + r.bytes_down for r in self.records if r.round <= reached)


@dataclass(frozen=True, repr=False)
class Result(Course):
    """A finished run. A notebook shows it as a line and a picture; ``plot`` gives the picture."""

    records: tuple[Record, ...]
    model: nn.Module
    """The module with the trained weights, in evaluation mode."""
    error: FedDCError | None = None
    """Why the run diverged, in a comparison; there is no model then."""

    @property
    def warning(self) -> str | None:
        """One sentence if a client's drift or variate grew without bound, with what to try; None if all is well."""
        return warning(self.records)

    def plot(self) -> Figure:
        """A matplotlib figure: the score and, where it was measured, drift over rounds; ``savefig`` keeps it."""
        from .show import plot

        return plot(self.records)

    def __repr__(self) -> str:
        from .show import summary

        return f"<Result: {summary(self)}>"

    def _repr_html_(self) -> str:
        from .show import as_html

        return as_html(self)


def score_in(records: Sequence[Record]) -> Score:
    """The score of a run: accuracy, if it has no record yet."""
    return records[-1].score if records else Score()
