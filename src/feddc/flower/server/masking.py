"""A round of secure aggregation: the four exchanges with the clients of a cohort, each as a question to all.

keys      →  who is there
shares    →  who can be missed later on
train     →  masked updates; a client that trains too long, or vanishes, is left out of the sum
reveal    →  shares, and from them the sum
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from logging import WARNING, getLogger
from typing import Any, NamedTuple

import numpy as np
from flwr.app import MessageType
from numpy.typing import NDArray

from ...errors import ProtocolError, RunError
from ...trust.secure import Secure
from ...trust.secure.lattice import distinct
from ...trust.secure.messages import Session, session_of
from ...trust.secure.server import SecureServer
from ...types import Mean, Means, Vector, Weights
from ..packets import MESSAGE, Packet
from .answers import check_for
from .asking import Answer, RefusedError

log = getLogger("flwr").log
Ask = Callable[[int, Packet, int, str], bool]
Collect = Callable[[int, float, str], Any]


class Summed(NamedTuple):
    """What a round of secure aggregation gives."""

    means: Means
    used: tuple[int, ...]
    seconds: dict[int, float]
    """How long each client took to train and mask."""
    bytes_up: int
    """Of one client, in the four exchanges."""


class MaskedRound:
    """One attempt at one round."""

    def __init__(
        self,
        secure: Secure,
        experiment: str,
        round: int,
        everyone: Weights,
        model: Vector,
        ask: Ask,
        arrivals: Collect,
    ) -> None:
        self.secure, self.experiment, self.round, self.everyone, self.model = secure, experiment, round, everyone, model
        self.ask, self.arrivals = ask, arrivals
        columns = {name: column.flatten().tolist() for name, column in everyone.items()}
        self.sums, self.places = distinct(columns)
        self.rings = [each.ring(secure.lattice) for each in self.sums]
        self.attempt = secrets.token_hex(8)
        name = session_of(experiment, round, self.attempt)
        self.session = Session(name, tuple((model.numel(), bits) for bits in self.rings))
        self.seconds: dict[int, float] = {}

    def run(self, questions: Mapping[int, Packet], within: float) -> Summed:
        """Ask, add up and unmask; RunError if too few stay. ``questions`` are those of training."""
        try:
            server = SecureServer(self.session, questions)
            self.exchange("keys", dict.fromkeys(questions, Packet({})), within, server.add_keys)
            self.exchange("shares", _packets(server.roster()), within, server.add_shares)
            inboxes = server.inboxes()
            training = {
                client: Packet(
                    questions[client].config | {"secure.units": [each.units[client] for each in self.sums]},
                    questions[client].arrays | {MESSAGE: np.frombuffer(inbox, dtype=np.uint8)},
                )
                for client, inbox in inboxes.items()
            }
            self.exchange("train", training, within, server.add_masked)
            self.exchange("reveal", _packets(server.survivors()), within, server.add_reveal)
            found = server.sums()
        except ProtocolError as error:
            raise RunError(
                f"round {self.round} has no sum: {error}; the log says who is missing, and another run tries again"
            ) from None
        up = self.secure.bytes_up(_columns(self.everyone), self.model.numel(), len(questions))
        return Summed(self.means(found, server.used), server.used, self.seconds, up)

    def exchange(
        self, what: str, questions: Mapping[int, Packet], within: float, add: Callable[[int, bytes], None]
    ) -> None:
        """Ask everyone, and take the answers that are there in time; a client whose answer is refused is out."""
        kind = MessageType.TRAIN if what == "train" else MessageType.QUERY
        about = {"ask": what, "experiment": self.experiment, "round": self.round}
        about |= {"secure.attempt": self.attempt, "secure.rings": self.rings}
        for client, packet in questions.items():
            self.ask(client, Packet(packet.config | about, packet.arrays), self.round, kind)
        arrived: Answer
        for arrived in self.arrivals(self.round, time.monotonic() + within, kind):
            client, answer = arrived.client, arrived.answer
            try:
                if isinstance(answer, RefusedError):
                    raise answer
                check_for(answer, self.experiment, self.round, client)
                add(client, _message(answer.arrays))
            except (RefusedError, ProtocolError) as reason:
                log(WARNING, "feddc: client %s is left out of round %s (%s): %s", client, self.round, what, reason)
                continue
            if what == "train":
                self.seconds[client] = arrived.seconds

    def means(self, found: list[NDArray[np.int64]], used: tuple[int, ...]) -> Means:
        """The mean for each weight that the method named, from the sums."""
        means = {}
        for name, column in self.everyone.items():
            place, largest = self.places[name]
            factor = self.sums[place].unit * self.secure.lattice.step * largest / len(used)
            delta = self.secure.lattice.scaled(found[place], factor, self.model)
            means[name] = Mean(_Delta(delta), float(column[list(used)].mean()))
        return means


class _Delta(NamedTuple):
    """The one field that uploads have under secure aggregation."""

    delta: Vector


def _columns(everyone: Weights) -> dict[str, list[float]]:
    return {name: column.flatten().tolist() for name, column in everyone.items()}


def _packets(messages: Mapping[int, bytes]) -> dict[int, Packet]:
    return {client: Packet({}, {MESSAGE: np.frombuffer(each, dtype=np.uint8)}) for client, each in messages.items()}


def _message(arrays: Mapping[str, Any]) -> bytes:
    array = arrays.get(MESSAGE)
    if set(arrays) != {MESSAGE} or array is None or str(array.dtype) != "uint8" or array.ndim != 1:
        raise RefusedError("it has no message of secure aggregation")
    return bytes(array.tobytes())
