"""The messages as bytes: a fixed header, then fixed-width entries. Whatever does not fit exactly is a ProtocolError."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import ProtocolError, check, check_count
from .keys import KEY, OVERHEAD

Ints = NDArray[np.int64]
SEALED = 8 + 2 * KEY + OVERHEAD
"""A sealed pair of shares: from whom, for whom, a share of the mask key, a share of the seed."""
_HEADER = struct.Struct("<4sB32sI")  # magic, kind, session, the client that sent it or that it is for
_MAGIC = b"fdA1"
KEYS, ROSTER, SHARES, INBOX, MASKED, SURVIVORS, REVEAL = range(1, 8)


@dataclass(frozen=True)
class Plan:
    """What both sides know of a session before it begins: its name, and the vectors that are added up."""

    session: bytes
    """32 bytes that no other session has: an experiment, a round and an attempt (``session_of``)."""
    vectors: tuple[tuple[int, int], ...]
    """For each vector its length and the bits of its ring, 32 or 64."""

    def __post_init__(self) -> None:
        check(len(self.session) == 32, f"a session's name has 32 bytes, not {len(self.session)}")
        for length, bits in self.vectors:
            check_count("the length of a vector", length, 0)
            check(bits in (32, 64), f"the ring must have 32 or 64 bits, not {bits}")

    @property
    def sizes(self) -> list[tuple[int, int]]:
        return list(self.vectors)

    @property
    def nbytes(self) -> int:
        """The bytes of one client's masked vectors."""
        return sum(length * bits // 8 for length, bits in self.vectors)


def session_of(*parts: str | int) -> bytes:
    """The name of the session of, say, an experiment and a round."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).digest()


def pack(kind: int, plan: Plan, client: int, body: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, kind, plan.session, client) + body


def unpack(kind: int, plan: Plan, client: int, message: bytes) -> bytes:
    """The body of a message of that kind, of this session, from or for that client."""
    if not isinstance(message, bytes | bytearray | memoryview) or len(message) < _HEADER.size:
        raise ProtocolError("the message is too short")
    magic, found, session, sender = _HEADER.unpack_from(message)
    if magic != _MAGIC:
        raise ProtocolError("the message is not one of secure aggregation")
    if session != plan.session:
        raise ProtocolError("the message belongs to another session")
    if found != kind:
        raise ProtocolError(f"the message is of exchange kind {found}, not {kind}")
    if sender != client:
        raise ProtocolError(f"the message names client {sender}, not {client}")
    return bytes(message[_HEADER.size :])


def pack_table(rows: Mapping[int, bytes]) -> bytes:
    """Entries of one length by client, in ascending order."""
    return b"".join(struct.pack("<I", client) + rows[client] for client in sorted(rows))


def unpack_table(body: bytes, width: int) -> dict[int, bytes]:
    """The inverse of ``pack_table``, which has nobody twice and nothing left over."""
    step = 4 + width
    if len(body) % step:
        raise ProtocolError("the message has the wrong length")
    entries = [body[i : i + step] for i in range(0, len(body), step)]
    clients = [struct.unpack_from("<I", each)[0] for each in entries]
    if clients != sorted(set(clients)):
        raise ProtocolError("the message names clients twice or out of order")
    return {client: each[4:] for client, each in zip(clients, entries, strict=True)}


def pack_vectors(vectors: Sequence[NDArray[np.unsignedinteger]]) -> bytes:
    return b"".join(each.tobytes() for each in vectors)


def unpack_vectors(body: bytes, plan: Plan) -> list[NDArray[np.unsignedinteger]]:
    if len(body) != plan.nbytes:
        raise ProtocolError(f"the masked vectors have {len(body)} bytes, not {plan.nbytes}")
    found, start = [], 0
    for length, bits in plan.vectors:
        found.append(np.frombuffer(body, dtype=f"<u{bits // 8}", count=length, offset=start))
        start += length * bits // 8
    return found
