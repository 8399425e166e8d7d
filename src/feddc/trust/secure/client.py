"""The client's side of a session. A call that fails leaves the client as it was; one that succeeds is not repeated."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...errors import ProtocolError, check
from . import keys
from .layout import KEY, SEALED
from .messages import Kind, Session, pack, pack_table, pack_vectors, unpack, unpack_table


class SecureClient:
    """One client in one session; ``least`` is the smallest sum that it takes part in."""

    def __init__(self, number: int, session: Session, least: int = 2) -> None:
        check(least >= 2, f"a sum of {least} hides nobody: least must be 2 or more")
        self.number, self.session, self.least = number, session, least
        self._seal_key, self._mask_key, self._seed = keys.new_secret(), keys.new_secret(), keys.new_secret()
        self._publics = keys.public(self._seal_key), keys.public(self._mask_key)
        self._done = 0
        self._threshold = 0
        self._roster: dict[int, bytes] = {}
        self._held: dict[int, bytes] = {}

    def keys(self) -> bytes:
        """Exchange 1: two public keys."""
        self._expect(0)
        self._done = 1
        return pack(Kind.KEYS, self.session, self.number, b"".join(self._publics))

    def shares(self, roster: bytes) -> bytes:
        """Exchange 2: shares of this client's two secrets, sealed for each of the others."""
        self._expect(1)
        body = unpack(Kind.ROSTER, self.session, self.number, roster)
        if len(body) < 4:
            raise ProtocolError("the list of keys is too short")
        threshold = struct.unpack_from("<I", body)[0]
        found = unpack_table(body[4:], 2 * KEY)
        if found.get(self.number) != b"".join(self._publics):
            raise ProtocolError("the list of keys does not have this client's own")
        every = [each[i : i + KEY] for each in found.values() for i in (0, KEY)]
        if len(set(every)) != len(every):
            raise ProtocolError("the list has a key twice")
        if not len(found) / 2 < threshold <= len(found) or threshold < self.least:
            raise ProtocolError(f"a threshold of {threshold} among {len(found)} clients is not accepted here")
        count = len(found)
        pieces = zip(
            keys.split(self._mask_key, count, threshold), keys.split(self._seed, count, threshold), strict=True
        )
        sealed = {}
        for other, (key_share, seed_share) in zip(sorted(found), pieces, strict=True):
            text = struct.pack("<II", self.number, other) + key_share + seed_share
            if other == self.number:
                own = text
            else:
                sealed[other] = keys.seal(self._pair_key(found[other], self.number, other), text)
        self._threshold, self._roster, self._held, self._done = threshold, found, {self.number: own}, 2
        return pack(Kind.SHARES, self.session, self.number, keys.digest(self._seed) + pack_table(sealed))

    def masked(self, inbox: bytes, vectors: Sequence[NDArray[np.int64]]) -> bytes:
        """Exchange 3: the vectors, under masks that only the sum is free of."""
        self._expect(2)
        shapes = [(len(each), bits) for each, (_, bits) in zip(vectors, self.session.vectors, strict=True)]
        check(shapes == self.session.sizes, "the vectors do not have the lengths that were agreed on")
        received = unpack_table(unpack(Kind.INBOX, self.session, self.number, inbox), SEALED)
        if not received.keys() <= self._roster.keys() - {self.number}:
            raise ProtocolError("there is a share of a client whose keys were not listed")
        if len(received) + 1 < self._threshold:
            raise ProtocolError(f"only {len(received) + 1} clients are left, of {self._threshold} needed")
        held = dict(self._held)
        for other, sealed in received.items():
            text = keys.unseal(self._pair_key(self._roster[other], other, self.number), sealed)
            if text[:8] != struct.pack("<II", other, self.number):
                raise ProtocolError("a share is for somebody else")
            held[other] = text
        total = [each.astype(f"<u{bits // 8}") for each, (_, bits) in zip(vectors, self.session.vectors, strict=True)]
        _add(total, keys.masks(keys.derived(self._seed, b"seed" + self.session.name), self.session.sizes), 1)
        for other in received:
            key = keys.agreed(self._mask_key, self._roster[other][KEY:], b"mask" + self.session.name)
            _add(total, keys.masks(key, self.session.sizes), 1 if self.number < other else -1)
        self._held, self._done = held, 3
        return pack(Kind.MASKED, self.session, self.number, pack_vectors(total))

    def reveal(self, survivors: bytes) -> bytes:
        """Exchange 4: of each client either a share of its seed or one of its key, never both."""
        self._expect(3)
        alive = unpack_table(unpack(Kind.SURVIVORS, self.session, self.number, survivors), 0).keys()
        if self.number not in alive or not alive <= self._held.keys():
            raise ProtocolError("the list of survivors is not of this session's clients")
        if len(alive) < self._threshold:
            raise ProtocolError(f"a sum of {len(alive)} clients is not revealed: {self._threshold} are needed")
        half = slice(8 + KEY, None), slice(8, 8 + KEY)
        self._done = 4
        return pack(
            Kind.REVEAL,
            self.session,
            self.number,
            pack_table({other: text[half[0] if other in alive else half[1]] for other, text in self._held.items()}),
        )

    def _pair_key(self, publics: bytes, sender: int, receiver: int) -> bytes:
        purpose = b"share" + struct.pack("<II", sender, receiver) + self.session.name
        return keys.agreed(self._seal_key, publics[:KEY], purpose)

    def _expect(self, done: int) -> None:
        if self._done != done:
            raise ProtocolError(f"this client has finished exchange {self._done}, so exchange {done + 1} is refused")


def _add(total: list[NDArray[np.unsignedinteger]], mask: list[NDArray[np.unsignedinteger]], sign: int) -> None:
    """Add or subtract in the ring: unsigned integers wrap around."""
    for mine, other in zip(total, mask, strict=True):
        (np.add if sign > 0 else np.subtract)(mine, other, out=mine)
