"""The server's side of a session. A message that is refused changes nothing."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import NDArray

from ...errors import ProtocolError, check
from . import keys
from .client import _add
from .layout import KEY, SEALED, Ints
from .messages import Kind, Session, pack, pack_table, unpack, unpack_table, unpack_vectors

TRIES = 200
"""How many choices of shares are tried where some of them turn out to be wrong."""


def majority(clients: int) -> int:
    """The threshold that is used where none is given: with more than half, no two disjoint groups can be asked."""
    return max(2, clients // 2 + 1)


class SecureServer:
    """A session with ``clients``, of whom ``threshold`` have to stay to the end."""

    def __init__(self, session: Session, clients: Collection[int], threshold: int | None = None) -> None:
        self.session, self.clients = session, frozenset(clients)
        self.threshold = majority(len(self.clients)) if threshold is None else threshold
        check(
            len(self.clients) / 2 < self.threshold <= len(self.clients) and self.threshold >= 2,
            f"the threshold must be above half of the {len(self.clients)} clients and at least 2, not {self.threshold}",
        )
        self._exchange = 1
        self._keys: dict[int, bytes] = {}
        self._sealed: dict[int, dict[int, bytes]] = {}
        self._digests: dict[int, bytes] = {}
        self._masked: set[int] = set()
        self._total = [np.zeros(length, dtype=f"<u{bits // 8}") for length, bits in session.vectors]
        self._revealed: dict[int, dict[int, bytes]] = {}

    @property
    def used(self) -> tuple[int, ...]:
        """The clients whose vectors are in the sum."""
        return tuple(sorted(self._masked))

    def add_keys(self, client: int, message: bytes) -> None:
        body = self._take(1, client, self.clients, self._keys, Kind.KEYS, message)
        if len(body) != 2 * KEY:
            raise ProtocolError("the keys have the wrong length")
        self._keys[client] = body

    def roster(self) -> dict[int, bytes]:
        """For each client that sent its keys: everyone's."""
        self._next(1, self._keys)
        body = struct.pack("<I", self.threshold) + pack_table(self._keys)
        return {client: pack(Kind.ROSTER, self.session, client, body) for client in self._keys}

    def add_shares(self, client: int, message: bytes) -> None:
        body = self._take(2, client, self._keys, self._sealed, Kind.SHARES, message)
        sealed = unpack_table(body[KEY:], SEALED)
        if sealed.keys() != self._keys.keys() - {client}:
            raise ProtocolError("the shares are not for the clients that were listed")
        self._sealed[client], self._digests[client] = sealed, body[:KEY]

    def inboxes(self) -> dict[int, bytes]:
        """For each client that sent shares: those meant for it."""
        self._next(2, self._sealed)
        return {
            client: pack(
                Kind.INBOX,
                self.session,
                client,
                pack_table({other: each[client] for other, each in self._sealed.items() if other != client}),
            )
            for client in self._sealed
        }

    def add_masked(self, client: int, message: bytes) -> None:
        body = self._take(3, client, self._sealed, self._masked, Kind.MASKED, message)
        _add(self._total, unpack_vectors(body, self.session), 1)
        self._masked.add(client)

    def survivors(self) -> dict[int, bytes]:
        """For each client that sent its vectors: who did."""
        self._next(3, self._masked)
        body = pack_table(dict.fromkeys(self._masked, b""))
        return {client: pack(Kind.SURVIVORS, self.session, client, body) for client in self._masked}

    def add_reveal(self, client: int, message: bytes) -> None:
        body = self._take(4, client, self._masked, self._revealed, Kind.REVEAL, message)
        found = unpack_table(body, KEY)
        if found.keys() != self._sealed.keys():
            raise ProtocolError("the revealed shares are not of the clients that were asked for")
        self._revealed[client] = found

    def sums(self) -> list[Ints]:
        """The sums over ``used``, as signed integers; ProtocolError if too few shares were revealed or fit."""
        self._enough(4, self._revealed)
        total = [each.copy() for each in self._total]
        for client in self._sealed:
            if client in self._masked:
                seed = self._secret(client, keys.digest, self._digests[client])
                _add(total, keys.masks(keys.derived(seed, b"seed" + self.session.name), self.session.sizes), -1)
            else:
                self._unmask_absent(client, total)
        return [each.view(f"<i{each.itemsize}").astype(np.int64) for each in total]

    def _unmask_absent(self, absent: int, total: list[NDArray[np.unsignedinteger]]) -> None:
        """Take out what the others added for a client that then did not send its vectors."""
        private = self._secret(absent, keys.public, self._keys[absent][KEY:])
        for other in self._masked:
            key = keys.agreed(private, self._keys[other][KEY:], b"mask" + self.session.name)
            _add(total, keys.masks(key, self.session.sizes), -1 if other < absent else 1)

    def _secret(self, owner: int, recognise: Callable[[bytes], bytes], known: bytes) -> bytes:
        """A secret from any shares that give one that fits: a wrong share is passed over while others are left."""
        numbers = {client: place for place, client in enumerate(sorted(self._keys), start=1)}
        shares = {numbers[client]: found[owner] for client, found in self._revealed.items()}
        for chosen in itertools.islice(itertools.combinations(sorted(shares), self.threshold), TRIES):
            found = keys.combine({number: shares[number] for number in chosen})
            if recognise(found) == known:
                return found
        raise ProtocolError(f"the shares of client {owner}'s secret do not fit together")

    def _take(
        self, exchange: int, client: int, allowed: Collection[int], taken: Collection[int], kind: Kind, message: bytes
    ) -> bytes:
        if self._exchange != exchange:
            raise ProtocolError(f"a message of exchange {exchange} came in exchange {self._exchange}")
        if client not in allowed:
            raise ProtocolError(f"client {client} has no part in exchange {exchange}")
        if client in taken:
            raise ProtocolError(f"client {client} has answered in exchange {exchange} already")
        return unpack(kind, self.session, client, message)

    def _next(self, exchange: int, answered: Collection[int]) -> None:
        self._enough(exchange, answered)
        self._exchange = exchange + 1

    def _enough(self, exchange: int, answered: Collection[int]) -> None:
        if self._exchange != exchange:
            raise ProtocolError(f"exchange {exchange} is over or has not begun")
        if len(answered) < self.threshold:
            raise ProtocolError(
                f"only {len(answered)} clients answered in exchange {exchange}, and {self.threshold} are needed"
            )
