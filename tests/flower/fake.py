"""Flower's grid in memory: every node is a real ClientApp, called in this process."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from flwr.app import Context, Error, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

Tamper = Callable[[int, Message], Message]


class FakeGrid(Grid):
    """Nodes with scrambled ids. ``tamper`` may change a client's reply; ``down`` are clients whose replies are lost.

    Replies of ``slow`` clients to questions of training arrive when they are taken out of it. As in Flower, a reply
    that nobody fetched before its question's life was over is an error.
    """

    def __init__(self, app: ClientApp, clients: int, folder: Path) -> None:
        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1  # what Flower sets in its processes
        self.app, self.folder = app, folder
        self.nodes = {1000 + 37 * (client * 7 % clients): client for client in range(clients)}
        self.replies: dict[str, Message] = {}
        self.down: set[int] = set()
        self.slow: set[int] = set()
        self.owners: dict[str, tuple[int, Message, float]] = {}
        self.tamper: Tamper = lambda _, reply: reply
        self.sent: list[Message] = []
        self._ids = (f"m{i}" for i in itertools.count())

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        ids = []
        for message in messages:
            id = next(self._ids)
            message.metadata.__dict__["_message_id"] = id
            self.sent.append(message)
            client = self.nodes[message.metadata.dst_node_id]
            reply = self._run(client, message)
            if client not in self.down:
                self.replies[id] = self.tamper(client, reply)
                self.owners[id] = client, message, time.monotonic()
            ids.append(id)
        return ids

    def _run(self, client: int, message: Message) -> Message:
        context = Context(1, message.metadata.dst_node_id, self.node_config(client), RecordDict(), {})
        try:
            return self.app(message, context)
        except Exception as error:  # as Flower's own process does
            return Message(Error(1, str(error)), reply_to=message)

    def node_config(self, client: int) -> dict[str, Any]:
        """What a site was started with."""
        return {"partition-id": client, "state-dir": str(self.folder)}

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._delivered(id) for id in message_ids if id in self.replies and not self._held(id)]

    def _held(self, id: str) -> bool:
        client, message, _ = self.owners[id]
        return client in self.slow and message.metadata.message_type == MessageType.TRAIN

    def _delivered(self, id: str) -> Message:
        _, message, asked = self.owners[id]
        reply = self.replies.pop(id)
        if time.monotonic() - asked > message.metadata.ttl:
            reply = Message(Error(0, "Message Unavailable"), reply_to=message)
        reply.metadata.__dict__["_reply_to_message_id"] = id
        return reply

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **options: Any) -> Message:
        raise NotImplementedError

    def send_and_receive(self, *args: Any, **options: Any) -> list[Message]:
        raise NotImplementedError
