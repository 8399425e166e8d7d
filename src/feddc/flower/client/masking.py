"""A client's part in secure aggregation: the four exchanges as questions of the server (``server/masking.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ProtocolError
from ...trust.secure.client import SecureClient
from ...trust.secure.lattice import Lattice
from ...trust.secure.messages import Session, session_of
from ...types import Rows
from ..packets import MESSAGE, Packet


def session_from(config: Mapping[str, Any], parameters: int) -> Session:
    """The session that a question belongs to: one attempt at one round of one experiment."""
    name = session_of(str(config["experiment"]), int(config["round"]), str(config["secure.attempt"]))
    return Session(name, tuple((parameters, int(bits)) for bits in config["secure.rings"]))


class Masking:
    """One client's sessions; a new one ends the one before."""

    def __init__(self, number: int, parameters: int, least: int) -> None:
        self.number, self.parameters, self.least = number, parameters, least
        self._client: SecureClient | None = None

    def answer(self, asked: Packet) -> Packet:
        """Exchanges 1, 2 and 4; the third is an answer to a question of training."""
        config, session = asked.config, session_from(asked.config, self.parameters)
        what = config["ask"]
        if what == "keys":
            self._client = SecureClient(self.number, session, self.least)
            return self._reply(config, self._client.keys())
        client = self._of(session)
        return self._reply(config, client.shares(_bytes(asked)) if what == "shares" else client.reveal(_bytes(asked)))

    def masked(self, asked: Packet, delta: Rows, lattice: Lattice) -> NDArray[np.uint8]:
        """Exchange 3: the update under masks, once for each weight that the server named for this client."""
        client, multiples = self._of(session_from(asked.config, self.parameters)), lattice.quantised(delta)[0]
        vectors = [int(units) * multiples for units in asked.config["secure.units"]]
        return np.frombuffer(client.masked(_bytes(asked), vectors), dtype=np.uint8)

    def _of(self, session: Session) -> SecureClient:
        if self._client is None or self._client.session != session:
            raise ProtocolError(
                "this client has no part in that session: it was started anew, or the question is stale"
            )
        return self._client

    def _reply(self, config: Mapping[str, Any], message: bytes) -> Packet:
        about = {"experiment": str(config["experiment"]), "round": int(config["round"]), "client": self.number}
        return Packet(about, {MESSAGE: np.frombuffer(message, dtype=np.uint8)})


def _bytes(asked: Packet) -> bytes:
    array = asked.arrays.get(MESSAGE)
    if array is None or array.dtype != np.uint8 or array.ndim != 1:
        raise ProtocolError("the question has no message of secure aggregation")
    return array.tobytes()
