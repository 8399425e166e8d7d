"""How long messages are: known without the cryptography that fills them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
KEY = 32
"""Bytes of a public key, a private key, a seed, and a share of either."""
OVERHEAD = 12 + 16
"""How much longer a sealed text is: its nonce and its tag."""
SEALED = 8 + 2 * KEY + OVERHEAD
"""A sealed pair of shares: from whom, for whom, a share of the mask key, a share of the seed."""
HEADER = struct.Struct("<4sB32sI")
"""Magic, kind, session, and the client that sent a message or that it is for."""


def bytes_up(vectors: Sequence[tuple[int, int]], cohort: int) -> int:
    """What one client sends in the four exchanges: keys, sealed shares, masked vectors, revealed shares."""
    keys, shares, reveal = 2 * KEY, KEY + (cohort - 1) * (4 + SEALED), cohort * (4 + KEY)
    return 4 * HEADER.size + keys + shares + sum(length * bits // 8 for length, bits in vectors) + reveal
