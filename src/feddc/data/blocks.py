"""What is evaluated at a time: blocks of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from .arrays import InputsAndTargets
from .inputs import cut, take

if TYPE_CHECKING:
    from .federation import Federation

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


def samples_of_block(federation: Federation, block: Block) -> InputsAndTargets:
    """The samples of a block as a model takes them, and their targets."""
    part, lazy = slice(block.start, block.stop), federation.lazy
    if block.of == "test":
        if lazy is not None:
            assert lazy.test is not None
            return lazy.test.read(range(block.start, block.stop), (1, block.start))
        assert federation.test is not None
        return federation.inputs(cut(federation.test[0], part)), federation.test[1][part]
    rows = federation.validation if block.of == "validation" else (federation.held or ())[block.client]
    assert rows is not None
    if lazy is not None:
        return lazy.train.read(rows[part], (2, block.start))
    rows = rows[part].to(federation.y.device)
    return federation.inputs(take(federation.x, rows)), federation.y.index_select(0, rows)
