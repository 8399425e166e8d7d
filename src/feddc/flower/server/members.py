"""Who is connected: which SuperNode is which client.

Flower's node ids are random, and change when a SuperNode without a key restarts. Clients are known by their number, the
partition-id that they answer with when asked who they are. Where ``nodes`` binds numbers to node ids, which belong to
registered keys, nobody else is let in under that number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from logging import INFO, WARNING, getLogger

from flwr.app import MessageType
from flwr.serverapp import Grid

from ...errors import ConfigError, RunError
from ..packets import Packet
from .asking import RefusedError, pauses, push, read
from .patience import patiently

INTRODUCTION_SECONDS = 45
"""A round does not wait longer than this for a node to say who it is: one that is gone is listed for about a minute."""
SETTLE_SECONDS = 30
"""How long a run that continues waits for everybody: after a restart of the SuperLink, nodes come back one by one."""

log = getLogger("flwr").log
Introduce = Callable[[int, Packet], None]
"""Takes note of what a client says of itself; RefusedError if it cannot take part."""


class Members:
    """The clients of a run, as far as they are connected."""

    def __init__(self, grid: Grid, introduce: Introduce, wait: float, bound: Mapping[int, int]) -> None:
        """``introduce(client, answer)`` is called for every client that says who it is, before it is used."""
        self.grid, self.introduce, self.wait, self.bound = grid, introduce, wait, bound
        self.nodes: dict[int, int] = {}
        """The node of each connected client."""
        self._asked: dict[str, tuple[int, float]] = {}  # message id: node, and when it was asked who it is
        self._known: set[int] = set()  # nodes that were asked

    def gather(self, wanted: Sequence[int], least: int, settle: float = 0.0) -> list[int]:
        """Those of ``wanted`` that are connected, at least ``least``; RunError if they do not come in time.

        Fewer than all are only taken after ``settle`` seconds, in which the others may connect.
        """
        began, said = time.monotonic(), False
        for pause in pauses():
            self.refresh()
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
                log(INFO, "feddc: waiting for clients: %s of %s are connected", len(here), len(wanted))
                said = True
            time.sleep(pause)
        raise AssertionError("pauses do not end")

    def refresh(self) -> None:
        """Look who is connected, ask those that are new who they are, and take their answers."""
        online = set(patiently(self.grid.get_node_ids))
        self.nodes = {client: node for client, node in self.nodes.items() if node in online}
        self._known &= online
        self._asked = {id: asked for id, asked in self._asked.items() if asked[0] in online}
        for node in sorted(online - self._known):
            id = push(self.grid, Packet({"ask": "who"}), node, MessageType.QUERY)
            if id:  # else it is asked again at the next look
                self._asked[id] = node, time.monotonic()
                self._known.add(node)
        if self._asked:
            for message in patiently(lambda: self.grid.pull_messages(list(self._asked))):
                asked = self._asked.pop(message.metadata.reply_to_message_id, None)
                if asked is None:
                    continue
                node, _ = asked
                try:
                    self._take(node, read(message))
                except RefusedError as reason:
                    log(WARNING, "feddc: node %s is not used: %s", node, reason)

    def _take(self, node: int, answer: Packet | RefusedError) -> None:
        if isinstance(answer, RefusedError):
            raise answer
        client = answer.config.get("client")
        if not isinstance(client, int) or isinstance(client, bool) or client < 0:
            raise RefusedError("it does not say which client it is")
        if self.bound and self.bound.get(client) != node:
            raise RefusedError(f"it says that it is client {client}, but that number is not bound to this node")
        self.introduce(client, answer)
        if client in self.nodes:  # a SuperNode that was restarted is listed twice for a while
            log(WARNING, "feddc: node %s takes the place of node %s as client %s", node, self.nodes[client], client)
        self.nodes[client] = node


def bindings(text: str) -> dict[int, int]:
    """The setting ``nodes``, "0=1234 1=5678": which node, by the id of its registered key, may be which client."""
    found: dict[int, int] = {}
    for part in text.replace(",", " ").split():
        client, equals, node = part.partition("=")
        if not (equals and client.isdecimal() and node.isdecimal()):
            raise ConfigError(f"nodes must be CLIENT=NODE-ID for every client, such as '0=1234 1=5678', not '{part}'")
        if int(client) in found or int(node) in found.values():
            raise ConfigError(f"nodes names client {client} or its node twice")
        found[int(client)] = int(node)
    return found
