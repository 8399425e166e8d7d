"""A federation taken apart into its large tensors and the rest, so that processes and devices can share it.

filled(bare(federation), named_tensors(federation)) is the federation again
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from .clients import Clients
from .federation import Federation
from .inputs import Inputs, each, tensors
from .stored import Mapped

ROWS = ("clients", "sizes", "held", "held.sizes", "validation")
"""Those of ``named_tensors`` that say who holds what."""


def named_tensors(federation: Federation) -> dict[str, Tensor]:
    """All that is large in a federation, by name."""
    clients, held, test = federation.clients, federation.held, federation.test
    parts = {"y": federation.y, **_numbered("x.", federation.x)}
    rows = clients.rows if isinstance(clients, Clients) else torch.cat(list(clients))
    parts |= {"clients": rows, "sizes": torch.from_numpy(federation.sizes)}
    if test is not None:
        parts |= {**_numbered("test.x.", test[0]), "test.y": test[1]}
    if held is not None:
        parts |= {"held": torch.cat(list(held)), "held.sizes": torch.tensor([len(rows) for rows in held])}
    return parts if federation.validation is None else parts | {"validation": federation.validation}


def bare(federation: Federation) -> Federation:
    """The federation without its samples."""

    def emptied(part: Tensor) -> Tensor:
        return part if isinstance(part, Mapped) else part[:0].clone()

    test, none = federation.test, torch.empty(0, dtype=torch.int64)
    return replace(
        federation,
        x=each(emptied, federation.x),
        y=emptied(federation.y),
        clients=(),
        test=None if test is None else (each(emptied, test[0]), emptied(test[1])),
        held=None if federation.held is None else (),
        validation=None if federation.validation is None else none,
    )


def filled(federation: Federation, parts: Mapping[str, Tensor]) -> Federation:
    """A bare federation with the samples that ``named_tensors`` gave."""

    def inputs(prefix: str, like: Inputs) -> Inputs:
        numbers = itertools.count()
        return each(lambda part: part if isinstance(part, Mapped) else parts[f"{prefix}{next(numbers)}"], like)

    test = federation.test
    return replace(
        federation,
        x=inputs("x.", federation.x),
        y=parts["y"],
        clients=Clients(parts["clients"].numpy(), parts["sizes"].numpy()),
        test=None if test is None else (inputs("test.x.", test[0]), parts["test.y"]),
        held=None if federation.held is None else Clients(parts["held"].numpy(), parts["held.sizes"].numpy()),
        validation=None if federation.validation is None else parts["validation"],
    )


def _numbered(prefix: str, x: Inputs) -> dict[str, Tensor]:
    """The tensors of samples, except those in files: every process reads its file itself."""
    in_memory = (part for part in tensors(x) if not isinstance(part, Mapped))
    return {f"{prefix}{i}": part for i, part in enumerate(in_memory)}
