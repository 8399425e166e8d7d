"""Vectors that travel in fewer bytes: rounded at random, up or down, so that the error has mean zero.

| name | a number takes | rounded to |
|---|---|---|
| none | 4 bytes | – |
| bf16 | 2 bytes | bfloat16: the upper half of its 32 bits, which is what travels |
| int8 | 1 byte, and 4 for each block of 256 | 255 steps between ± the largest number of its block |

As int8 the blocks' largest numbers travel first, as float32, and then a signed byte for each number.
The draw is keyed by seed, round and client, so that executors and resumed runs agree, and so do simulator and Flower:
``decode(encode(vector))`` is what both work with. Both sides continue with what arrived: a client keeps the update as
the server received it, and the server accounts for what clients received. So sums that are equal without rounding, such
as the server's drift and the mean of the clients', stay equal with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..algorithms import Algorithm
from ..errors import DataError, check
from ..options import Compress
from ..types import Rows, Vector
from .keys import Purpose, generator

BLOCK = 256
Packed = NDArray[np.uint8]
"""The bytes of a vector that travels, (bytes,)."""


@dataclass(frozen=True)
class Compression:
    """What rounds the vectors of a run."""

    name: Compress
    seed: int

    def down(self, sent: Any, round: int) -> Any:
        """A broadcast as the clients receive it."""
        packed = zip(sent, self.pack_sent(sent, round), strict=True)
        return type(sent)(*(self.unpack(each, field) for field, each in packed))

    def up(self, delta: Rows, clients: Sequence[int], round: int) -> Rows:
        """The updates of these clients as the server receives them."""
        pairs = zip(clients, delta, strict=True)
        return torch.stack([self.unpack(self.pack_update(row, client, round), row) for client, row in pairs])

    def pack_sent(self, sent: Any, round: int) -> list[Packed]:
        """What travels of a broadcast in this round, field by field; the same to every client."""
        return [self._packed(field, "broadcast", round, i) for i, field in enumerate(sent)]

    def pack_update(self, delta: Vector, client: int, round: int) -> Packed:
        """What travels of a client's update in this round."""
        return self._packed(delta, "update", round, client)

    def unpack(self, packed: Packed, like: Vector) -> Vector:
        """The vector that arrived, of the length and type of ``like``; DataError if it cannot be one."""
        return decode(self.name, packed, len(like), like.dtype)

    def nbytes(self, state: Any) -> int:
        """What the vectors, or one client's rows, of a NamedTuple take when they travel."""
        return sum(packed_bytes(self.name, field) for field in state)

    def _packed(self, vector: Vector, purpose: Purpose, round: int, client: int) -> Packed:
        rng = torch.Generator().manual_seed(int(generator(self.seed, purpose, round, client).integers(2**63)))
        return encode(self.name, vector, rng)


class TransportOptions(Protocol):
    """The options that say how vectors travel: those of a simulation, or of a run on Flower."""

    @property
    def compress(self) -> Compress: ...
    @property
    def seed(self) -> int: ...
    @property
    def secure(self) -> str | None: ...
    @property
    def privacy(self) -> str | None: ...


def compression_of(options: TransportOptions, algorithm: Algorithm) -> Compression | None:
    """The compression that the options ask for; one sentence where it does not go with the rest."""
    if options.compress == "none":
        return None
    secret = "secure" if options.secure else "privacy" if options.privacy else None
    check(secret is None, f"compress={options.compress} cannot be combined with {secret}, which does its own rounding")
    plain = getattr(algorithm, "sends_update", True)
    check(plain, f"compress needs a method that sends its update unchanged, which {algorithm!r} does not")
    return Compression(options.compress, options.seed)


def packed_bytes(name: Compress, vector: Vector) -> int:
    """What a vector takes when it travels."""
    if name == "int8":
        return vector.numel() + 4 * -(-vector.numel() // BLOCK)
    return 2 * vector.numel() if name == "bf16" else vector.nbytes


def encode(name: Compress, vector: Vector, rng: torch.Generator) -> Packed:
    """The bytes that travel: each number rounded up or down at random, to its own value on average."""
    vector = vector.detach().cpu()
    if name == "none" or not len(vector):
        return vector.contiguous().numpy().view(np.uint8)
    found = (_upper_halves if name == "bf16" else _steps)(vector, rng)
    return np.concatenate([np.ascontiguousarray(part).view(np.uint8).reshape(-1) for part in found])


def decode(name: Compress, packed: Packed, size: int, dtype: torch.dtype = torch.float32) -> Vector:
    """The ``size`` numbers that ``encode`` packed, rounded; DataError where there are more or fewer bytes than that."""
    wanted = packed_bytes(name, torch.empty(size, dtype=dtype, device="meta"))
    if packed.dtype != np.uint8 or packed.shape != (wanted,):
        raise DataError(
            f"{size} numbers as {name} travel in {wanted} bytes, not as {packed.dtype} of shape {packed.shape}"
        )
    if not size:
        return torch.empty(0, dtype=dtype)
    raw = torch.from_numpy(packed.copy())
    if name == "none":
        return raw.view(dtype)
    if name == "bf16":
        return (raw.view(torch.int16).to(torch.int32) << 16).view(torch.float32).to(dtype)
    blocks = -(-size // BLOCK)
    step = raw[: 4 * blocks].view(torch.float32).to(dtype) / 127
    return raw[4 * blocks :].view(torch.int8) * step.repeat_interleave(BLOCK)[:size]


def _upper_halves(vector: Vector, rng: torch.Generator) -> list[NDArray[Any]]:
    # A float's bits count its magnitude up: a random lower half, added, carries into the upper as often as it should.
    bits = vector.to(torch.float32).view(torch.int32)
    bits = bits + torch.randint(0, 2**16, bits.shape, generator=rng, dtype=torch.int32)
    return [(bits >> 16).to(torch.int16).numpy()]


def _steps(vector: Vector, rng: torch.Generator) -> list[NDArray[Any]]:
    short = -len(vector) % BLOCK
    blocks = torch.nn.functional.pad(vector, (0, short)).view(-1, BLOCK)
    largest: Tensor = blocks.abs().amax(dim=1, keepdim=True).to(torch.float32)
    step = largest.to(vector.dtype) / 127
    draw = torch.rand(blocks.shape, generator=rng, dtype=vector.dtype)
    whole = torch.floor(blocks / torch.where(step > 0, step, 1) + draw).clamp(-127, 127)
    # A block with a number that is not finite arrives as NaN: its largest number says so.
    whole = torch.where(torch.isfinite(largest), whole, 0).to(torch.int8)
    return [largest.numpy(), whole.view(-1)[: len(vector)].numpy()]
