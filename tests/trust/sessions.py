"""A session of secure aggregation in one process, in which any client may vanish or tamper in any exchange."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from feddc.errors import ProtocolError
from feddc.trust.secure.client import SecureClient
from feddc.trust.secure.messages import Session
from feddc.trust.secure.server import SecureServer

Tamper = Callable[[int, int, bytes], bytes]


def honest(_exchange: int, _client: int, message: bytes) -> bytes:
    return message


def run_session(
    session: Session,
    vectors: Mapping[int, list[np.ndarray]],
    threshold: int | None = None,
    gone: Mapping[int, Collection[int]] | None = None,
    tamper: Tamper = honest,
) -> tuple[SecureServer, list[np.ndarray]]:
    """The server and the sums. ``gone[e]`` vanish before exchange e (from 1); ``tamper`` sees what clients send."""
    server = SecureServer(session, vectors, threshold)
    clients = {number: SecureClient(number, session) for number in vectors}
    gone = gone or {}

    def ask(
        exchange: int, add: Callable[[int, bytes], None], answer: Callable[[int], bytes], who: Collection[int]
    ) -> None:
        for number in who:
            if all(number not in gone.get(each, ()) for each in range(1, exchange + 1)):
                try:
                    add(number, tamper(exchange, number, answer(number)))
                except ProtocolError:
                    continue  # that client is out

    ask(1, server.add_keys, lambda n: clients[n].keys(), clients)
    roster = server.roster()
    ask(2, server.add_shares, lambda n: clients[n].shares(roster[n]), roster)
    inboxes = server.inboxes()
    ask(3, server.add_masked, lambda n: clients[n].masked(inboxes[n], vectors[n]), inboxes)
    survivors = server.survivors()
    ask(4, server.add_reveal, lambda n: clients[n].reveal(survivors[n]), survivors)
    return server, server.sums()
