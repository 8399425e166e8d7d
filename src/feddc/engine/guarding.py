"""How a round is put under guard: what the options ask for, and updates replaced by what the server uses of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np
import torch

from ..algorithms import Algorithm, method_name
from ..data import Federation
from ..errors import check
from ..models import Buffers, FlatModel
from ..options import Trust
from ..trust.guard import SERVER, Guard, Randomness, make_guard
from ..trust.privacy import Draws
from ..types import LocalResult, Rows
from .cohorts import Bernoulli, Cohorts, FixedSize
from .keys import generator
from .local.kernel import Start
from .records import Rejected
from .screening import bad_rows

Refuse = Callable[[Sequence[Rejected]], set[int]]


class Arrived(NamedTuple):
    """What came back from some clients."""

    clients: Sequence[int]
    params: Rows
    delta: Rows
    buffers: Buffers
    told: int = 0
    """How many bytes each of them has to be told of what was used of its update."""
    dual: Rows | None = None
    """What the local steps made of ``Correction.dual``; a method that has one cannot be guarded."""

    def only(self, rows: list[int]) -> Arrived:
        buffers = Buffers(*(field[rows] for field in self.buffers))
        return Arrived([self.clients[row] for row in rows], self.params[rows], self.delta[rows], buffers, self.told)


def guarded(arrived: Iterable[Arrived], guard: Guard, start: Start, refuse: Refuse) -> Iterator[Arrived]:
    """The same with what the server uses in place of every update; in one part, if they have to be seen together."""
    sound = (each for part in arrived if (each := _sound(part, refuse)).clients)
    for clients, _, delta, buffers, *_ in _together(sound) if guard.whole(start.round) else sound:
        if len(clients) < guard.least:
            reason = f"too few: the noise of {guard.least} clients is needed, and {len(clients)} answered"
            refuse([Rejected(client, reason) for client in clients])
            continue
        used, told = guard.used(delta, clients, start.round)
        yield Arrived(clients, start.model + used, used, buffers, told)


def _sound(part: Arrived, refuse: Refuse) -> Arrived:
    """The clients whose numbers can be looked at."""
    bad = refuse(bad_rows(part.clients, part.params, (part.buffers.floats,)))
    return part.only([row for row, client in enumerate(part.clients) if client not in bad]) if bad else part


def _together(parts: Iterable[Arrived]) -> Iterator[Arrived]:
    found = list(parts)
    if found:
        clients = [client for each in found for client in each.clients]
        buffers = Buffers(*(torch.cat(fields) for fields in zip(*(each.buffers for each in found), strict=True)))
        yield found[0]._replace(clients=clients, delta=torch.cat([each.delta for each in found]), buffers=buffers)


def draws_of(cohorts: Cohorts, clients: int, *, empty: bool = True) -> Draws:
    """How these cohorts are drawn, as far as privacy depends on it.

    Without ``empty`` a round is never without anybody, and nothing is gained for privacy by joining at random.
    """
    fixed = isinstance(cohorts, FixedSize)
    return Draws(clients, cohorts.mean_size, fixed or (empty and isinstance(cohorts, Bernoulli)), fixed)


def guard_of(
    options: Trust,
    algorithm: Algorithm,
    model: FlatModel,
    drawn: Draws,
    rounds: int,
    random: Randomness,
) -> Guard | None:
    """The guard that the options ask for; ConfigError where the method or the model cannot have it."""
    texts = {field.name: getattr(options, field.name) for field in fields(Trust)}
    guard = make_guard(random, drawn, rounds, **texts)
    if guard is None:
        return None
    name = method_name(algorithm)
    params = model.params.clone()
    still = LocalResult(
        round=1, nominal=1, lr=1.0, rate=1.0, steps=torch.ones(1, 1), delta=params.new_zeros(1, len(params))
    )
    client = algorithm.init_client(params)
    rows = type(client)(*(field.unsqueeze(0) for field in client))
    sent = algorithm.broadcast(algorithm.init_server(params))
    upload, _ = algorithm.upload(sent, rows, still, torch.ones(1, 1))
    only_delta = upload._fields == ("delta",)
    check(only_delta, f"{name} sends more than its update ({', '.join(upload._fields)}), which cannot be protected")
    if guard.privacy is not None or guard.secure is not None:
        what = "privacy" if guard.privacy is not None else "secure"
        reads = getattr(getattr(algorithm, "server", None), "reads_spread", False)
        hidden = guard.central or guard.secure is not None
        check(not (reads and hidden), f"{name}'s server optimiser reads how far clients disagree, which {what} hides")
        bare = model.buffers().floats.numel() == 0
        check(bare, f"{what} does not cover buffers such as BatchNorm's: use GroupNorm or LayerNorm")
    return guard


def keyed(seed: int) -> Randomness:
    """The noise of a simulation: the same for the same seed, so nothing that hides anything."""

    def random(round: int, client: int) -> np.random.Generator:
        return generator(seed, "noise", round, 0 if client == SERVER else client + 1)

    return random


def poisoned(federation: Federation, guard: Guard | None) -> Federation:
    """The federation with the labels that attackers learn."""
    if guard is None or guard.attack is None:
        return federation
    labels = federation.y.clone()
    for indices in federation.clients[: guard.attack.clients]:
        labels[indices] = guard.attack.relabel(labels[indices], federation.classes)
    return replace(federation, y=labels)
