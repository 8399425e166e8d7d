"""The Flower ClientApp. It hands each message to this client's trainer process and returns its answer."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from logging import getLogger
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from ..failures import report
from ..home import flower_home
from ..packets import Packet, from_records, to_records
from ..references import Reference, reference
from . import audit, trainers

if TYPE_CHECKING:
    from flwr.clientapp.typing import Mod

    from .training import TrainingClient


def client_app(
    load_client: Reference, model: Reference, *, methods: Sequence[Reference] = (), mods: Sequence[Mod] = ()
) -> ClientApp:
    """A Flower ClientApp that trains on what ``load_client`` returns.

    ``load_client(node)`` gets the SuperNode's ``--node-config`` as a dict and returns ``(x, y)`` or a torch Dataset;
    ``model()`` returns the module. Both are best given by name, ``"hospitals.task:load_client"``, so that Flower's own
    process, a new one for every message, does not import torch. ``methods`` are method classes of your own, ``mods``
    Flower's modifiers of messages. In the node's config, ``state-dir`` is the folder in which state is kept,
    ``threads`` the number that a trainer computes with (1 if it is left out), ``device`` where it computes (a GPU if
    there is one) and ``precision`` how precisely, whatever the server asks for.
    """
    names = reference("load_client", load_client), reference("model", model)
    own = tuple(reference("a method", each) for each in methods)

    def respond(message: Message, context: Context) -> Message:
        node = tuple(sorted(context.node_config.items()))
        asked = from_records(message.content)
        return Message(to_records(_answer((*names, own, node, str(_folder(context))), asked)), reply_to=message)

    app = DiscreetApp(mods=list(mods))
    for kind in (app.query, app.train, app.evaluate):
        kind()(respond)
    return app


class DiscreetApp(ClientApp):
    """A ClientApp that keeps a record of what it sends, and whose exceptions stay at the site, also those of its mods.

    Flower would send their text.
    """

    def __call__(self, message: Message, context: Context) -> Message:
        try:
            reply = super().__call__(message, context)
        except Exception as error:
            getLogger("flwr").exception("feddc: this message was not answered; the server is only told where")
            reply = Message(to_records(Packet(report(error))), reply_to=message)
        audit.record(_folder(context), context.node_config.get("partition-id", "x"), message, reply)
        return reply


def _folder(context: Context) -> Path:
    """Where this client keeps its state and its record of what it sent."""
    return Path(str(context.node_config.get("state-dir", flower_home() / "feddc"))).expanduser().absolute()


def _answer(spec: tuple[Any, ...], asked: Packet) -> Packet:
    if Path(sys.argv[0]).name == "flwr-clientapp":  # one message, then this process ends: a trainer beside it stays
        return trainers.answer(spec, asked)
    config, arrays = _here(spec).answer(asked)
    return Packet(config | {"simulated": True}, arrays)


@lru_cache(maxsize=64)
def _here(spec: tuple[Any, ...]) -> TrainingClient:
    """In Flower's simulation many clients share a few long-lived processes, and train in them."""
    from .training import ClientSpec, TrainingClient

    return TrainingClient(ClientSpec(*spec))
