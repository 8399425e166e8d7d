"""What stands between local training and the server's sums, in the order in which an update meets it.

    site     clip, noise       privacy "local" or "distributed"
    (bad)    poison            attack: what attackers send instead
    server   clip              privacy "central"
    site     round             secure
    server   filter            robust
    server   noise on sums     privacy "central"

What comes out is the update as the server uses it, and that is what the client's state is computed from: a client never
remembers an update that the server did not have. Only noise on the sums is in no client's state, as telling them would
undo it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..errors import check, check_number
from ..types import Mean, Means, Rows, Vector, Weights
from .attacks import Attack, Labels, make_attack
from .privacy import (
    DELTA,
    Budget,
    DistributedNoise,
    Draws,
    LocalNoise,
    Privacy,
    clipped,
    make_privacy,
    noise_like,
    planned,
)
from .robust import Filter, Rule, make_rule
from .secure import Secure, make_secure
from .secure.lattice import distinct
from .window import Window, windowed

Randomness = Callable[[int, int], np.random.Generator]
"""The randomness of a round and a client, or of the server (client −1)."""
SERVER = -1


@dataclass(frozen=True)
class Guard:
    """All that is done to updates; each part may be missing."""

    random: Randomness
    draws: Draws
    robust: Rule | None = None
    attack: Attack | None = None
    privacy: Privacy | None = None
    secure: Secure | None = None
    budget: Budget | None = None
    filtered: Window = Window()
    """In which rounds ``robust`` applies."""
    attacked: Window = Window()
    """In which rounds there is an ``attack``."""

    def whole(self, round: int) -> bool:
        """Whether the updates of a round have to be seen together."""
        filters = self.robust is not None and round in self.filtered
        poisons = self.attack is not None and round in self.attacked
        return filters or poisons or self.least > 0

    @property
    def least(self) -> int:
        """How many clients have to answer for their noise to add up to enough."""
        shared = self.privacy is not None and isinstance(self.privacy, DistributedNoise)
        return round(self.draws.size) if shared else 0

    @property
    def central(self) -> bool:
        """Whether the server adds noise, and so must not divide by how many took part."""
        return self.privacy is not None and self.privacy.hidden

    def used(self, delta: Rows, clients: Sequence[int], round: int) -> tuple[Rows, int]:
        """What the server uses of these clients' updates, of a cohort's if ``whole(round)``.

        The number is how many bytes a client that keeps state has to be told to do the same to its own.
        """
        told = 0
        if self.privacy is not None and not self.central:
            delta = self._at_sites(delta, clients, round, self.privacy)
        if self.attack is not None and round in self.attacked:
            delta = self.attack.poison(delta, self.attackers(clients))
        if self.privacy is not None and self.central:
            delta, _ = clipped(delta, self.privacy.clip)
        if self.secure is not None:
            delta = self.secure.lattice.rounded(delta)
        if self.robust is not None and round in self.filtered and len(delta):
            found = self.robust.filter(delta)
            delta, told = found.used(delta), found.nbytes
        return delta, told

    def at_server(self, delta: Rows) -> tuple[Rows, Filter | None]:
        """What the server uses of updates that real sites sent, and how it made that of them."""
        if self.privacy is not None and self.central:
            delta, _ = clipped(delta, self.privacy.clip)
        found = None if self.robust is None else self.robust.filter(delta)
        return (delta if found is None else found.used(delta)), found

    def asked_of_sites(self) -> dict[str, float | int]:
        """What real sites are asked to do to their updates, as settings of a question."""
        found: dict[str, float | int] = {}
        if self.privacy is not None:
            deviation = self.privacy.site_deviation(self.draws.size) * self.privacy.clip
            found |= {"guard.clip": self.privacy.clip, "guard.noise": deviation}
        if self.secure is not None:
            found |= {"guard.range": self.secure.range, "guard.bits": self.secure.bits}
        return found

    def attackers(self, clients: Sequence[int]) -> Tensor:
        """Which of these clients attack: the first ones."""
        assert self.attack is not None
        return torch.tensor([client < self.attack.clients for client in clients], dtype=torch.bool)

    def released(self, means: Means, size: int, everyone: Weights, round: int) -> Means:
        """The means of a cohort of ``size`` with the server's noise, as of a cohort of the expected size.

        ``everyone`` has the weights of all clients: the largest says what one client can do to a sum.
        """
        assert self.privacy is not None
        sums, places = distinct({name: column.flatten().tolist() for name, column in everyone.items()})
        deviation = self.privacy.server_deviation() * self.privacy.clip * len(sums) ** 0.5
        found, noises = {}, dict[int, Vector]()
        rng = self.random(round, SERVER)
        for name, mean in means.items():
            place, largest = places[name]
            if place not in noises:
                noises[place] = noise_like(mean.delta, deviation, rng)
            total = size * mean.delta + largest * noises[place]
            upload = mean.upload._replace(delta=total / self.draws.size)
            found[name] = Mean(upload, float(everyone[name].mean()))
        return found

    def spent(self, rounds: int) -> float | None:
        """ε after so many rounds; None without privacy or without noise."""
        epsilon = math.inf if self.budget is None else self.budget.epsilon(rounds)
        return epsilon if epsilon < math.inf else None

    def bytes_up(self, everyone: Weights, parameters: int, cohort: int) -> int | None:
        """What each client of a cohort sends in secure aggregation; None without it."""
        if self.secure is None:
            return None
        columns = {name: column.flatten().tolist() for name, column in everyone.items()}
        return self.secure.bytes_up(columns, parameters, cohort)

    def _at_sites(self, delta: Rows, clients: Sequence[int], round: int, privacy: Privacy) -> Rows:
        delta, _ = clipped(delta, privacy.clip)
        deviation = privacy.site_deviation(self.draws.size) * privacy.clip
        if not deviation:
            return delta
        noises = [
            noise_like(row, deviation, self.random(round, client)) for row, client in zip(delta, clients, strict=True)
        ]
        return delta + torch.stack(noises) if noises else delta


def make_guard(
    random: Randomness,
    draws: Draws,
    rounds: int,
    *,
    robust: Rule | str | None = None,
    attack: Attack | str | None = None,
    privacy: Privacy | str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    secure: Secure | str | None = None,
) -> Guard | None:
    """The guard that these options ask for, with noise planned for ``epsilon``; None if they ask for none."""
    if privacy is None and epsilon is not None:
        privacy = "central"
    check(delta is None or privacy is not None, "delta has no effect without epsilon=… or privacy=…")
    if (robust, attack, privacy, secure) == (None, None, None, None):
        return None
    rule, filtered = parsed_rule(robust) if isinstance(robust, str) else (robust, Window())
    bad, attacked = parsed_attack(attack) if isinstance(attack, str) else (attack, Window())
    noise = make_privacy(privacy) if isinstance(privacy, str) else privacy
    sums = make_secure(secure) if isinstance(secure, str) else secure
    if rule is not None:
        check(
            sums is None, "secure hides single updates, which robust has to see: bound them by privacy's clip instead"
        )
        check(
            noise is None or isinstance(noise, LocalNoise),
            "robust lets one client change what is used of others, so it goes with privacy=local only",
        )
    if bad is not None:
        check(
            bad.clients < draws.clients,
            f"attack has {bad.clients} of {draws.clients} clients: one must be honest",
        )
    budget = None
    if noise is not None:
        small = DELTA if delta is None else delta
        check_number("delta", small, 0, 1, above=True)
        check(noise.noise is not None or epsilon is not None, "privacy needs noise=… or epsilon to plan it for")
        steady = draws.fixed or draws.size == draws.clients
        check(
            steady or not isinstance(noise, DistributedNoise),
            "privacy=distributed needs cohorts of a fixed size: give cohort_size",
        )
        if noise.noise is None and epsilon is not None:
            noise = replace(noise, noise=planned(noise, draws, rounds, epsilon, small))  # type: ignore[type-var]
        budget = Budget(noise, draws, small, epsilon)
        check(
            budget.allows(1), f"one round alone costs more than epsilon {epsilon:g}: use more noise" if epsilon else ""
        )
    return Guard(random, draws, rule, bad, noise, sums, budget, filtered, attacked)


def parsed_rule(text: str) -> tuple[Rule, Window]:
    """A robust rule and the rounds in which it applies: ``trimmed-mean:0.3:from=9``."""
    name, window = windowed(text)
    return make_rule(name), window


def parsed_attack(text: str) -> tuple[Attack, Window]:
    """An attack and the rounds in which there is one: ``sign-flip:3:from=5:until=8``."""
    name, window = windowed(text)
    attack = make_attack(name)
    learned = isinstance(attack, Labels)
    check(window.always or not learned, "labels are learned wrong in every round: this attack takes no from and until")
    return attack, window
