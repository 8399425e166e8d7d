"""Secure aggregation: the server learns the sum of the clients' vectors and nothing else of any of them.

Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning" (CCS 2017), the protocol for an
honest-but-curious server, as state machines that exchange bytes and never touch a network, a clock or a file:

    exchange   client                                     server
    1          SecureClient.keys      →  two public keys   add_keys,   roster       everyone's keys
    2          SecureClient.shares    →  sealed shares     add_shares, inboxes      the shares meant for each
    3          SecureClient.masked    →  masked vectors    add_masked, survivors    who is in the sum
    4          SecureClient.reveal    →  shares            add_reveal, sums         the sum

Clients may vanish in any exchange: as long as ``threshold`` of them remain the sum of those that sent their vectors is
exact, and below it there is none. Vectors are integers (``lattice.py``) in rings of 32 or 64 bits.
"""

from __future__ import annotations

from .lattice import Lattice, Masked, Secure, make_secure

__all__ = ["Lattice", "Masked", "Secure", "make_secure"]
