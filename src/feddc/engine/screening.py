"""What the server does not let in: updates that are NaN, Inf, absurdly large, or of the wrong shape or type."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..types import Rows, Vector
from .executors import Trained
from .local.kernel import Start
from .records import Rejected

LARGEST = 1e8
"""No trained network has parameters like this; a flipped bit in an exponent or a diverging client has."""


def misfits(trained: Trained, clients: Sequence[int], start: Start) -> tuple[Rejected, ...]:
    """All of these clients, if what came back is not a row like the model and its buffers for each of them."""
    wanted: list[tuple[str, Vector]] = [("parameters", start.model), *start.buffers._asdict().items()]
    for (name, like), rows in zip(wanted, (trained.params, *trained.buffers), strict=True):
        shape = (len(clients), *like.shape)
        if tuple(rows.shape) != shape or rows.dtype != like.dtype:
            found = f"{name} of shape {tuple(rows.shape)} and type {rows.dtype}, not {shape} and {like.dtype}"
            return tuple(Rejected(client, found) for client in clients)
    return ()


def bad_rows(clients: Sequence[int], params: Rows, others: Sequence[Rows]) -> tuple[Rejected, ...]:
    """The clients with a number that is not finite in any of their rows, or with absurdly large parameters."""
    if all(_harmless(rows) for rows in (params, *others)):
        return ()
    size = _largest(params)
    finite = torch.isfinite(size)
    for rows in others:
        finite &= torch.isfinite(_largest(rows))
    verdicts = zip(clients, finite.tolist(), (size <= LARGEST).tolist(), strict=True)
    return tuple(
        Rejected(client, f"numbers above {LARGEST:g}" if finite else "NaN or Inf")
        for client, finite, small in verdicts
        if not (finite and small)
    )


def _harmless(rows: Rows) -> bool:
    """Whether a single product, the quickest pass over memory there is, shows that nothing is wrong."""
    flat = rows.reshape(-1)
    return float(torch.dot(flat, flat)) <= LARGEST**2  # false for NaN


def _largest(rows: Rows) -> Vector:
    """The largest magnitude in each row, NaN where there is one."""
    return rows.abs().amax(dim=1) if rows.shape[1] else rows.new_zeros(len(rows))
