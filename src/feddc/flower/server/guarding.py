"""What protects a federation, on the server's side: which options are possible, and what is used of an update."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...algorithms import Algorithm
from ...engine.cohorts import make_cohorts
from ...engine.guarding import draws_of, guard_of
from ...errors import check
from ...models import FlatModel
from ...options import Sampling
from ...trust.guard import Guard
from ...trust.privacy import Budget
from ...trust.secure import Masked, Secure
from ...types import Means, Weights
from ..client.settling import FACTOR, filter_message
from ..settings import Settings
from .answers import Answers
from .checkpoint import Progress


def unpredictable(_round: int, _client: int) -> np.random.Generator:
    """Noise of the server that nobody can repeat."""
    return np.random.default_rng(secrets.randbits(256))


class ServerGuard:
    """The guard of a simulation as a server of real sites has it; without any protection it lets everything pass."""

    def __init__(self, settings: Settings, algorithm: Algorithm, model: FlatModel, keeps_state: bool) -> None:
        """``keeps_state``: whether clients have state that depends on what is used of their updates."""
        cohorts = make_cohorts(
            settings.clients, settings.rounds, Sampling(settings.participation, settings.cohort_size)
        )
        drawn = draws_of(cohorts, settings.clients, empty=False)
        self.guard: Guard | None = guard_of(settings, algorithm, model, drawn, settings.rounds, unpredictable)
        robust = self.guard is not None and self.guard.robust is not None
        self.later = robust and keeps_state
        """Whether a client can keep its state only when its next question tells what was used of its update."""
        self._check(settings)

    def _check(self, settings: Settings) -> None:
        """Refuse what a real federation does not have."""
        if self.guard is None:
            return
        real = self.guard.secure is None or isinstance(self.guard.secure, Masked)
        check(real, "on Flower updates are really masked: secure=masked, with the options of simulated")
        check(self.guard.filtered.always, "on Flower robust applies from the round in which it is first given")
        on_time = self.guard.secure is None or settings.late == "refuse"
        check(on_time, "secure=masked adds up what is there in time: late=use is not possible with it")
        together = not self.later or settings.late == "refuse"
        check(together, "robust compares answers of one round: use late=refuse")

    def __bool__(self) -> bool:
        return self.guard is not None

    @property
    def secure(self) -> Secure | None:
        return None if self.guard is None else self.guard.secure

    @property
    def budget(self) -> Budget | None:
        return None if self.guard is None else self.guard.budget

    @property
    def least(self) -> int:
        """How many answers a round needs: where sites share the noise, as many as it was shared among."""
        return 0 if self.guard is None else self.guard.least

    @property
    def equal(self) -> bool:
        """Whether everyone counts the same, whatever its samples, as it is with noise."""
        return self.guard is not None and self.guard.privacy is not None

    def spent(self, rounds: int) -> float | None:
        """ε after so many rounds; None without noise."""
        return None if self.guard is None else self.guard.spent(rounds)

    def asked(self, client: int, progress: Progress) -> dict[str, Any]:
        """The settings of a question to a client that say what to do to its update, and what was used of its last."""
        asked: dict[str, Any] = {} if self.guard is None else dict(self.guard.asked_of_sites())
        asked |= {"guard.later": True} if self.later else {}
        return asked | ({FACTOR: progress.factors[client]} if client in progress.factors else {})

    def decided(self, client: int, progress: Progress) -> dict[str, NDArray[Any]]:
        """The arrays of a question that tell a client what was used of its last update."""
        return progress.filters.get(progress.seen.get(client, 0), {}) if self.later else {}

    def used(self, round: int, answers: Answers, clients: list[int], progress: Progress) -> Iterator[tuple[Any, Any]]:
        """Of each client, what the server uses of its update, and its buffers; a robust rule sees all of them."""
        if self.guard is None or self.guard.robust is None:
            for client in clients:
                upload, own = answers.read(client)
                if self.guard is not None:
                    upload = upload._replace(delta=self.guard.at_server(upload.delta.unsqueeze(0))[0].squeeze(0))
                yield upload, own
            return
        everyone = [answers.read(client) for client in clients]
        rows, rule = self.guard.at_server(torch.stack([upload.delta for upload, _ in everyone]))
        if self.later and rule is not None:
            for row, client in enumerate(clients):
                told, progress.filters[round] = filter_message(rule, row)
                progress.factors[client] = told[FACTOR]
        for delta, (upload, own) in zip(rows, everyone, strict=True):
            yield upload._replace(delta=delta), own

    def released(self, means: Means, number: float, size: int, everyone: Weights, round: int) -> tuple[Means, float]:
        """The means of ``size`` answers with the server's noise where it adds some, and how many they count for."""
        if self.guard is None or not self.guard.central:
            return means, number
        return self.guard.released(means, size, everyone, round), self.guard.draws.size
