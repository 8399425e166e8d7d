"""Drift, made visible: a few norms and one running sum a round, O(K P) for K clients of P parameters.

| number | of | reads |
|---|---|---|
| update | ‖Δ_i‖ = ‖θ_i − w‖ | how far the client moved in this round |
| drift | ‖h_i‖ | the drift that the client brought into the round, for methods that keep one |
| gap | ‖θ_i + h_i − w‖ | what its drift leaves open: FedDC's penalty; ‖θ_i − w‖ where there is no h_i |
| variate | ‖g_i‖ | the gradient estimate that the client leaves the round with, for methods that keep one |
| cosine | mean over pairs of cos(Δ_i, Δ_j) | 1: clients pull one way; 0: each its own; below 0: against each other |

w is the model that the client received, h_i what it trained with, θ_i where it ended. A method keeps a drift or a
variate if its client state has a field of that name; nothing here knows a method by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..types import Rows


@dataclass(frozen=True)
class Drift:
    """How far the clients of a round were from the global model and from each other: norms, one for each client."""

    update: tuple[float, ...]
    """‖Δ_i‖ of each participant, in the order of ``Record.participants``, as are the next two."""
    gap: tuple[float, ...]
    drift: tuple[float, ...] | None = None
    """None for a method whose clients keep no drift."""
    cosine: float | None = None
    """None where fewer than two clients moved: there is no pair to compare."""
    variate: tuple[float, ...] | None = None
    """None for a method whose clients keep no variate."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Drift:
        """The inverse of ``dataclasses.asdict`` after a journey through JSON, which has no tuples."""
        fields: dict[str, Any] = {k: tuple(each) if isinstance(each, list) else each for k, each in values.items()}
        return cls(**fields)


class DriftMeter:
    """Takes the clients of one round as they come, in parts; ``result`` is what they add up to."""

    def __init__(self) -> None:
        self._update: list[Tensor] = []
        self._gap: list[Tensor] = []
        self._drift: list[Tensor] = []
        self._variate: list[Tensor] = []
        self._directions: Tensor | None = None

    def add(self, delta: Rows, client: Any, after: Any) -> None:
        """Some clients: their updates Δ_i, the state that they trained with, and the one that they keep."""
        length = torch.linalg.vector_norm(delta, dim=1)  # (k,)
        drift: Rows | None = getattr(client, "drift", None)
        self._update.append(length)
        if drift is None:
            self._gap.append(length)
        else:
            self._drift.append(torch.linalg.vector_norm(drift, dim=1))
            self._gap.append(torch.linalg.vector_norm(delta + drift, dim=1))
        variate: Rows | None = getattr(after, "variate", None)
        if variate is not None and variate.shape[1]:
            self._variate.append(torch.linalg.vector_norm(variate, dim=1))
        inverse = torch.where(length > 0, 1 / length, 0)
        directions = inverse @ delta  # (P,): the sum of Δ_i / ‖Δ_i‖
        self._directions = directions if self._directions is None else self._directions.add_(directions)

    def result(self) -> Drift | None:
        """What the round's clients add up to; None if there were none."""
        if self._directions is None:
            return None
        drift = _numbers(self._drift) if self._drift else None
        update = _numbers(self._update)
        moved = sum(each > 0 for each in update)
        variate = _numbers(self._variate) if self._variate else None
        return Drift(update, _numbers(self._gap), drift, self._cosine(moved), variate)

    def _cosine(self, moved: int) -> float | None:
        """The mean over pairs, none of them visited: ‖Σ u_i‖² = K + Σ_{i≠j} cos(u_i, u_j) for K unit vectors u_i."""
        if moved < 2:
            return None
        assert self._directions is not None
        squared = float(torch.linalg.vector_norm(self._directions, dtype=torch.float64)) ** 2
        return short_number((squared - moved) / (moved * (moved - 1)))


def _numbers(parts: Sequence[Tensor]) -> tuple[float, ...]:
    return tuple(short_number(value) for part in parts for value in part.tolist())


def short_number(value: float) -> float:
    """Six digits: enough to read, and records stay small."""
    return float(f"{value:.6g}")
