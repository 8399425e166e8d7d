"""Vectors that travel in fewer bytes: rounded at random, up or down, so that the error has mean zero.

| name | a number takes | rounded to |
|---|---|---|
| none | 4 bytes | – |
| bf16 | 2 bytes | bfloat16: the upper half of its 32 bits |
| int8 | 1 byte, and 4 for each block of 256 | 255 steps between ± the largest number of its block |

The draw is keyed by seed, round and client, so that executors and resumed runs agree. Both sides work on with what
arrived: a client keeps the update as the server received it, and the server accounts for what clients received. So sums
that are equal without rounding, such as the server's drift and the mean of the clients', stay equal with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..algorithms import Algorithm
from ..errors import check
from ..options import Compress, Options
from ..types import Rows, Vector
from .keys import Purpose, generator

BLOCK = 256


@dataclass(frozen=True)
class Compression:
    """What rounds the vectors of a run."""

    name: Compress
    seed: int

    def down(self, sent: Any, round: int) -> Any:
        """A broadcast as the clients receive it."""
        return type(sent)(*(self._rounded(field, "broadcast", round, i) for i, field in enumerate(sent)))

    def up(self, delta: Rows, clients: Sequence[int], round: int) -> Rows:
        """The updates of these clients as the server receives them."""
        rows = [self._rounded(row, "update", round, client) for client, row in zip(clients, delta, strict=True)]
        return torch.stack(rows)

    def nbytes(self, state: Any) -> int:
        """What the vectors, or one client's rows, of a NamedTuple take when they travel."""
        return sum(packed_bytes(self.name, field) for field in state)

    def _rounded(self, vector: Vector, purpose: Purpose, round: int, client: int) -> Vector:
        rng = torch.Generator().manual_seed(int(generator(self.seed, purpose, round, client).integers(2**63)))
        return rounded(self.name, vector, rng)


def compression_of(options: Options, algorithm: Algorithm) -> Compression | None:
    """The compression that the options ask for; one sentence where it does not go with the rest."""
    if options.compress == "none":
        return None
    secret = "secure" if options.secure else "privacy" if options.privacy else None
    check(secret is None, f"compress={options.compress} does not go with {secret}, which rounds updates in its own way")
    plain = getattr(algorithm, "sends_update", True)
    check(plain, f"compress needs a method that sends its update as it is, which {algorithm!r} does not")
    return Compression(options.compress, options.seed)


def packed_bytes(name: Compress, vector: Vector) -> int:
    """What a vector takes when it travels."""
    if name == "int8":
        return vector.numel() + 4 * -(-vector.numel() // BLOCK)
    return 2 * vector.numel() if name == "bf16" else vector.nbytes


def rounded(name: Compress, vector: Vector, rng: torch.Generator) -> Vector:
    """The vector as it arrives: each number rounded up or down at random, to its own value on average."""
    if name == "none" or not vector.numel():
        return vector
    return (_to_bf16 if name == "bf16" else _to_int8)(vector, rng)


def _to_bf16(vector: Vector, rng: torch.Generator) -> Vector:
    # A float's bits count its magnitude up: a random lower half, added, carries into the upper as often as it should.
    bits = vector.to(torch.float32).view(torch.int32)
    bits = bits + torch.randint(0, 2**16, bits.shape, generator=rng, dtype=torch.int32)
    return (bits & -(2**16)).view(torch.float32).to(vector.dtype)


def _to_int8(vector: Vector, rng: torch.Generator) -> Vector:
    short = -len(vector) % BLOCK
    blocks = torch.nn.functional.pad(vector, (0, short)).view(-1, BLOCK)
    step: Tensor = blocks.abs().amax(dim=1, keepdim=True).to(torch.float32).to(vector.dtype) / 127
    step = torch.where(step > 0, step, 1)
    draw = torch.rand(blocks.shape, generator=rng, dtype=vector.dtype)
    whole = torch.floor(blocks / step + draw).clamp(-127, 127)
    return (whole * step).view(-1)[: len(vector)].contiguous()
