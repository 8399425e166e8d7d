"""Half precision: products and convolutions in bfloat16, everything else in float32.

Weights, corrections, clipping, steps and aggregation stay float32; only the forward and backward pass of a local step,
and where asked for the forward pass of an evaluation, compute in bfloat16, as ``torch.autocast`` does it.
"""

from __future__ import annotations

import time
import warnings
from functools import cache

import torch

from ...errors import check


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """The context in which a forward pass runs."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


def check_precision(precision: str, kind: torch.dtype, device: str) -> None:
    """Refuse bf16 for a model that is not float32, and warn where this processor only imitates it."""
    if precision != "bf16":
        return
    check(kind == torch.float32, f"precision bf16 needs a model in float32, not {str(kind).removeprefix('torch.')}")
    if device == "cpu" and (slower := cpu_slowdown()) > 1.5:
        warnings.warn(
            f"this processor has no bfloat16 products: one takes {slower:.0f} times as long as in float32; "
            "the result is the same elsewhere, but here precision float32 is faster",
            stacklevel=2,
        )


@cache
def cpu_slowdown() -> float:
    """How many times longer a matrix product takes in bfloat16 than in float32 on this processor (below 1: faster)."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = torch.ones(192, 192)
        return _best(rows.bfloat16()) / _best(rows)
    finally:
        torch.set_num_threads(threads)


def _best(rows: torch.Tensor) -> float:
    seconds = []
    for _ in range(4):  # the first one also loads the kernel
        began = time.perf_counter()
        torch.mm(rows, rows)
        seconds.append(time.perf_counter() - began)
    return min(seconds)
