"""The primitives: X25519, HKDF, AES-GCM and AES-CTR of `cryptography`, Shamir's sharing of PyCryptodome.

Every key is derived for one session, one purpose and one pair, so that nothing of one round opens anything of another.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

import numpy as np
from Crypto.Protocol.SecretSharing import Shamir
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from ...errors import ProtocolError
from .layout import KEY

_HALF = KEY // 2  # Shamir's field here is GF(2^128): a secret of 32 bytes is shared in two halves
_NONCE = 12


def new_secret() -> bytes:
    """32 bytes from the operating system: a seed, or a private key."""
    return os.urandom(KEY)


def public(private: bytes) -> bytes:
    """The X25519 public key of a private key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreed(private: bytes, other: bytes, purpose: bytes) -> bytes:
    """The key that both ends of a pair derive for ``purpose``."""
    try:
        secret = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:  # a point of small order, which would give a secret that everyone knows
        raise ProtocolError("a public key cannot be used") from None
    return derived(secret, purpose)


def derived(secret: bytes, purpose: bytes) -> bytes:
    """A key for one purpose."""
    return HKDF(SHA256(), KEY, salt=None, info=b"feddc secure aggregation 1:" + purpose).derive(secret)


def digest(seed: bytes) -> bytes:
    """What a seed is recognised by once it was put together again."""
    return hashlib.sha256(b"feddc seed:" + seed).digest()


def seal(key: bytes, text: bytes) -> bytes:
    """Encrypted and authenticated."""
    nonce = os.urandom(_NONCE)
    return nonce + AESGCM(key).encrypt(nonce, text, None)


def unseal(key: bytes, sealed: bytes) -> bytes:
    """The inverse of ``seal``; ProtocolError if the text was not sealed with that key."""
    try:
        return AESGCM(key).decrypt(sealed[:_NONCE], sealed[_NONCE:], None)
    except (InvalidTag, ValueError):
        raise ProtocolError("a sealed share cannot be opened") from None


def masks(key: bytes, sizes: list[tuple[int, int]]) -> list[NDArray[np.unsignedinteger]]:
    """Uniform vectors, one for each (length, bits of the ring): the AES-256-CTR stream of a key used for this only."""
    stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    return [np.frombuffer(stream.update(bytes(n * bits // 8)), dtype=f"<u{bits // 8}") for n, bits in sizes]


def split(secret: bytes, count: int, threshold: int) -> list[bytes]:
    """``count`` shares of 32 bytes, any ``threshold`` of which give them back; the first is number 1."""
    halves = [Shamir.split(threshold, count, secret[i : i + _HALF], ssss=False) for i in (0, _HALF)]
    return [first + second for (_, first), (_, second) in zip(*halves, strict=True)]


def combine(shares: Mapping[int, bytes]) -> bytes:
    """The secret that these shares, by their number from 1, are of."""
    halves = (slice(0, _HALF), slice(_HALF, KEY))
    return b"".join(Shamir.combine([(n, share[half]) for n, share in shares.items()], ssss=False) for half in halves)
