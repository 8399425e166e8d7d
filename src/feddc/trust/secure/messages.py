"""The messages as bytes: a fixed header, then fixed-width entries. Whatever does not fit exactly is a ProtocolError."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ...errors import ProtocolError, check, check_count
from .layout import HEADER

_MAGIC = b"fdA1"


class Kind(IntEnum):
    """What a message is, in the order in which they come."""

    KEYS, ROSTER, SHARES, INBOX, MASKED, SURVIVORS, REVEAL = range(1, 8)


@dataclass(frozen=True)
class Session:
    """What both sides know of a session before it begins: its name, and the vectors that are added up."""

    name: bytes
    """32 bytes that no other session has: an experiment, a round and an attempt (``session_of``)."""
    vectors: tuple[tuple[int, int], ...]
    """For each vector its length and the bits of its ring, 32 or 64."""

    def __post_init__(self) -> None:
        check(len(self.name) == 32, f"a session's name has 32 bytes, not {len(self.name)}")
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


def pack(kind: Kind, session: Session, client: int, body: bytes) -> bytes:
    return HEADER.pack(_MAGIC, kind, session.name, client) + body


def unpack(kind: Kind, session: Session, client: int, message: bytes) -> bytes:
    """The body of a message of that kind, of this session, from or for that client."""
    if not isinstance(message, bytes | bytearray | memoryview) or len(message) < HEADER.size:
        raise ProtocolError("the message is too short")
    magic, found, name, sender = HEADER.unpack_from(message)
    if magic != _MAGIC:
        raise ProtocolError("the message is not one of secure aggregation")
    if name != session.name:
        raise ProtocolError("the message belongs to another session")
    if found != kind:
        raise ProtocolError(f"the message is of exchange kind {found}, not {kind}")
    if sender != client:
        raise ProtocolError(f"the message names client {sender}, not {client}")
    return bytes(message[HEADER.size :])


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


def unpack_vectors(body: bytes, session: Session) -> list[NDArray[np.unsignedinteger]]:
    if len(body) != session.nbytes:
        raise ProtocolError(f"the masked vectors have {len(body)} bytes, not {session.nbytes}")
    found, start = [], 0
    for length, bits in session.vectors:
        found.append(np.frombuffer(body, dtype=f"<u{bits // 8}", count=length, offset=start))
        start += length * bits // 8
    return found
