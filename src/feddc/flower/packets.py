"""What travels between server and client: named arrays and a few settings.

A packet goes over Flower as an ArrayRecord and a ConfigRecord, and over a trainer's local socket as one JSON header and
the raw bytes of each array. Nothing is pickled on either way.
"""

from __future__ import annotations

import json
import secrets
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray

from ..errors import DataError

ARRAYS, CONFIG, NONCE = "arrays", "config", "nonce"
MESSAGE = "secure.message"
"""The array that holds a message of secure aggregation, as bytes."""


class Packet(NamedTuple):
    """Named arrays and settings: text, numbers, true and false."""

    config: dict[str, Any]
    arrays: dict[str, NDArray[Any]] = {}  # noqa: RUF012  (never changed)


def to_records(packet: Packet) -> RecordDict:
    """As the content of a Flower message."""
    arrays = ArrayRecord({name: Array(array) for name, array in packet.arrays.items()})
    return RecordDict({ARRAYS: arrays, CONFIG: ConfigRecord(packet.config)})


def question(packet: Packet) -> RecordDict:
    """As the content of a question, with a random number that only the client that is asked gets to know.

    Flower names a message by the hash of its content and takes any member's answer to it: a name that another client
    could work out would let it answer in the place of the one that was asked.
    """
    return to_records(Packet(packet.config | {NONCE: secrets.token_hex(16)}, packet.arrays))


def from_records(content: RecordDict) -> Packet:
    """From the content of a Flower message; DataError if it is not one of ours."""
    arrays, config = content.get(ARRAYS), content.get(CONFIG)
    if not isinstance(arrays, ArrayRecord) or not isinstance(config, ConfigRecord) or len(content) != 2:
        raise DataError(f"the message must have the records '{ARRAYS}' and '{CONFIG}'")
    found: dict[str, NDArray[Any]] = {}
    for name, array in arrays.items():
        try:
            found[name] = array.numpy()  # numpy refuses pickled objects
        except (ValueError, TypeError, EOFError, OSError):
            raise DataError("an array cannot be read") from None
    return Packet(dict(config), found)


def send(connection: Connection, packet: Packet) -> None:
    """Write a packet to a local socket."""
    shapes = [(name, str(array.dtype), array.shape) for name, array in packet.arrays.items()]
    connection.send_bytes(json.dumps([packet.config, shapes]).encode())
    for array in packet.arrays.values():
        if array.size:
            connection.send_bytes(np.ascontiguousarray(array).data.cast("B"))


def receive(connection: Connection) -> Packet:
    """Read a packet from a local socket."""
    config, shapes = json.loads(connection.recv_bytes())
    arrays: dict[str, NDArray[Any]] = {}
    for name, kind, shape in shapes:
        raw = connection.recv_bytes() if np.prod(shape) else b""
        # A copy, as bytes cannot be written to and torch wants memory that can.
        arrays[name] = np.frombuffer(raw, dtype=np.dtype(kind)).reshape(shape).copy()
    return Packet(config, arrays)
