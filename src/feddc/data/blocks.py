"""What is evaluated at a time."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

EVALUATION_BLOCK = 1000
Of: TypeAlias = Literal["test", "validation", "client"]


class Block(NamedTuple):
    """Samples start to stop of the test set, of the validation set, or of what a client holds out."""

    of: Of
    start: int
    stop: int
    client: int = 0


def cut_blocks(of: Of, samples: int, client: int = 0) -> list[Block]:
    """The cut of so many samples: every executor evaluates these blocks, and adds them up in order."""
    starts = range(0, samples, EVALUATION_BLOCK)
    return [Block(of, start, min(start + EVALUATION_BLOCK, samples), client) for start in starts]
