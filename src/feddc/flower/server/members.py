"""Who is connected: which SuperNode is which client, and asking clients over Flower's grid.

Flower's node ids are random, and change when a SuperNode without a key restarts. Clients are known by their number, the
partition-id that they answer with when asked who they are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from logging import INFO, WARNING

from flwr.app import Message, MessageType
from flwr.common.logger import log
from flwr.serverapp import Grid

from ...errors import DataError, RunError
from ..packets import Packet, from_records, to_records

INTRODUCTION_SECONDS = 45
"""A round does not wait longer than this for a node to say who it is: one that is gone is listed for about a minute."""


SETTLE_SECONDS = 30
"""How long a run that continues waits for everybody: after a restart of the SuperLink, nodes come back one by one."""


class RefusedError(Exception):
    """An answer that is not used, and why."""


class SilentError(RefusedError):
    """No answer at all."""


class Members:
    """The clients of a run, as far as they are connected."""

    def __init__(self, grid: Grid, clients: int, parameters: int, wait: float) -> None:
        self.grid, self.clients, self.parameters, self.wait = grid, clients, parameters, wait
        self.nodes: dict[int, int] = {}
        """The node of each connected client."""
        self.samples: dict[int, int] = {}
        self._asked: dict[str, tuple[int, float]] = {}  # message id: node, and when it was asked who it is
        self._known: set[int] = set()  # nodes that were asked

    def gather(self, wanted: Sequence[int], least: int, settle: float = 0.0) -> list[int]:
        """Those of ``wanted`` that are connected, at least ``least``; RunError if they do not come in time.

        Fewer than all are only taken after ``settle`` seconds, in which the others may connect.
        """
        began, said = time.monotonic(), False
        for pause in pauses():
            self._refresh()
            here = [client for client in wanted if client in self.nodes]
            unsure = any(time.monotonic() - when < INTRODUCTION_SECONDS for _, when in self._asked.values())
            waited = time.monotonic() - began
            if len(here) == len(wanted) or (len(here) >= least and waited >= settle and not unsure):
                return here
            if waited > self.wait:
                missing = ", ".join(str(client) for client in wanted if client not in self.nodes)
                raise RunError(
                    f"{len(here)} of {len(wanted)} clients were connected after {self.wait:g} seconds, but at least "
                    f"{least} are needed: client {missing} is missing; start its SuperNode, then run again to continue"
                )
            if not said and not self._asked:
                log(INFO, "waiting for clients: %s of %s are connected", len(here), len(wanted))
                said = True
            time.sleep(pause)
        raise AssertionError("pauses do not end")

    def ask(
        self, questions: Mapping[int, Packet], round: int, within: float
    ) -> Iterator[tuple[int, Packet | RefusedError]]:
        """Ask these clients to train, and give their answers in this order, each when it is there.

        The other answers wait at the SuperLink until their turn: the order of a sum is that of a simulation, and the
        server holds one client's answer at a time.
        """
        ids = {}
        for client, packet in questions.items():  # one by one: a message holds a copy of the model
            content = to_records(packet)
            message = Message(content, self.nodes[client], MessageType.TRAIN, group_id=str(round), ttl=within)
            [ids[client]] = self.grid.push_messages([message])
        deadline = time.monotonic() + within
        for client, id in ids.items():
            yield client, self._answer(id, deadline, within)

    def _answer(self, id: str, deadline: float, within: float) -> Packet | RefusedError:
        for pause in pauses():
            for message in self.grid.pull_messages([id] if id else []):
                return read(message)
            if not id or time.monotonic() > deadline:
                break
            time.sleep(pause)
        return SilentError(f"no answer within {within:g} seconds" if id else "the message could not be sent")

    def _refresh(self) -> None:
        online = set(self.grid.get_node_ids())
        self.nodes = {client: node for client, node in self.nodes.items() if node in online}
        self._known &= online
        self._asked = {id: asked for id, asked in self._asked.items() if asked[0] in online}
        for node in sorted(online - self._known):
            question = Message(to_records(Packet({"ask": "who"})), node, MessageType.QUERY)
            [id] = self.grid.push_messages([question])
            if id:  # else it is asked again at the next look
                self._asked[id] = node, time.monotonic()
                self._known.add(node)
        if self._asked:
            for message in self.grid.pull_messages(list(self._asked)):
                node, _ = self._asked.pop(message.metadata.reply_to_message_id)
                self._introduce(node, read(message))

    def _introduce(self, node: int, answer: Packet | RefusedError) -> None:
        if isinstance(answer, RefusedError):
            log(WARNING, "node %s is not used: %s", node, answer)
            return
        client, samples, parameters = (answer.config.get(key) for key in ("client", "samples", "parameters"))
        reason = None
        if not isinstance(client, int) or not 0 <= client < self.clients:
            reason = f"it says that it is client {client}, but clients are numbered 0 to {self.clients - 1}"
        elif not isinstance(samples, int) or samples < 1:
            reason = f"client {client} says that it has {samples} samples"
        elif parameters != self.parameters:
            reason = f"the model of client {client} has {parameters} parameters, the server's {self.parameters}"
        elif self.samples.setdefault(client, samples) != samples:
            reason = f"client {client} has {samples} samples, and began this experiment with {self.samples[client]}"
        if reason is not None:
            log(WARNING, "node %s is not used: %s", node, reason)
            return
        assert isinstance(client, int)
        if client in self.nodes:  # a SuperNode that was restarted is listed twice for a while
            log(WARNING, "node %s takes the place of node %s as client %s", node, self.nodes[client], client)
        self.nodes[client] = node


def read(message: Message) -> Packet | RefusedError:
    """The answer in a message, or why there is none."""
    if message.has_error():
        return SilentError(f"it failed: {message.error.reason}")
    try:
        return from_records(message.content)
    except DataError as error:
        return RefusedError(str(error))


def pauses() -> Iterator[float]:
    """Seconds to wait between looks, for ever: a tenth of the time waited so far, between 0.2 and 3."""
    began = time.monotonic()
    while True:
        yield min(max(0.2, (time.monotonic() - began) / 10), 3.0)
