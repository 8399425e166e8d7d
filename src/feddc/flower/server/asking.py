"""Questions under way: all clients of a round are asked at once, and their answers are taken as they arrive.

A round's deadline is not the life of its messages: an answer that is there in time is fetched in time, however long
another client takes, and one that comes later is still delivered, so that it can be used or refused by rule. A client
is not asked again while it is at work on an earlier question.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from flwr.app import DEFAULT_TTL, Message, MessageType
from flwr.serverapp import Grid

from ...errors import DataError
from ..failures import FAILED, PLACE, explain
from ..packets import Packet, from_records, question
from .patience import patiently

AT_ONCE = 8
"""So many answers are fetched at a time: each is as large as the model."""


class RefusedError(Exception):
    """An answer that is not used, and why."""


class SilentError(RefusedError):
    """No answer at all."""


class Question(NamedTuple):
    """A question that is under way."""

    client: int
    node: int
    round: int
    kind: str
    when: float


class Answer(NamedTuple):
    """An answer, or why there is none, to the question of a round, which may be an earlier one than that under way."""

    client: int
    round: int
    answer: Packet | RefusedError
    seconds: float


class Correspondence:
    """The questions to clients that are not answered yet."""

    def __init__(self, grid: Grid, patience: float) -> None:
        """A client that has not answered after ``patience`` seconds is asked anew: its answer may have been lost."""
        self.grid, self.patience = grid, patience
        self._asked: dict[str, Question] = {}

    def busy(self, client: int, node: int) -> int | None:
        """The round for which this client still trains, if it does; a node that took its place does not."""
        since = time.monotonic() - self.patience
        training = [each for each in self._asked.values() if each.kind == MessageType.TRAIN and each.when > since]
        return max((each.round for each in training if (each.client, each.node) == (client, node)), default=None)

    def ask(
        self, client: int, node: int, packet: Packet, round: int, within: float, kind: str = MessageType.TRAIN
    ) -> bool:
        """Send a question; False if it could not be sent."""
        self.forget(client)
        id = push(self.grid, packet, node, kind, group_id=str(round), ttl=within + DEFAULT_TTL)
        if id:
            self._asked[id] = Question(client, node, round, kind, time.monotonic())
        return bool(id)

    def forget(self, client: int) -> None:
        """Expect no answer of this client any more: another node has taken its place, or it has left."""
        self._asked = {id: each for id, each in self._asked.items() if each.client != client}

    def forget_all(self) -> None:
        """Expect no answer any more."""
        self._asked.clear()

    def arrivals(self, round: int, deadline: float, kind: str = MessageType.TRAIN) -> Iterator[Answer]:
        """Answers of a kind as they arrive, until all of this round are there or the deadline (monotonic) is over.

        Those of earlier rounds come too, if they arrive meanwhile, but nobody waits for them.
        """
        for pause in pauses():
            yield from self._look(kind)
            if all((each.round, each.kind) != (round, kind) for each in self._asked.values()):
                return
            if (left := deadline - time.monotonic()) <= 0:
                return
            time.sleep(min(pause, left))

    def _look(self, kind: str) -> Iterator[Answer]:
        for ids in _parts([id for id, each in self._asked.items() if each.kind == kind], AT_ONCE):
            for message in patiently(partial(self.grid.pull_messages, ids)):
                asked = self._asked.pop(message.metadata.reply_to_message_id, None)
                if asked is not None:
                    yield Answer(asked.client, asked.round, read(message), time.monotonic() - asked.when)


def push(grid: Grid, packet: Packet, node: int, kind: str, **about: Any) -> str | None:
    """Send a question to a node: its id, or None if it was too large or malformed."""
    # Each attempt is a new message: of one that failed, a part may have been stored.
    ids = patiently(lambda: grid.push_messages([Message(question(packet), node, kind, **about)]))
    return next(iter(ids), None)


def read(message: Message) -> Packet | RefusedError:
    """The answer in a message, or why there is none."""
    if message.has_error():
        # The reason that Flower gives is its own text or, from an app that is not ours, a site's: it is not repeated.
        return SilentError(f"it could not be reached or its app failed (Flower's error {message.error.code})")
    try:
        packet = from_records(message.content)
    except DataError as error:
        return RefusedError(str(error))
    if FAILED in packet.config:
        where = explain(packet.config[FAILED], packet.config.get(PLACE))
        return SilentError(f"it failed with {where}; the reason is in the log of that site")
    return packet


def pauses() -> Iterator[float]:
    """Seconds to wait between looks, for ever: a fiftieth of the time waited so far, between 0.2 and 3."""
    began = time.monotonic()
    while True:
        yield min(max(0.2, (time.monotonic() - began) / 50), 3.0)


def _parts(ids: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), size):
        yield ids[start : start + size]
