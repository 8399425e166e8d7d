"""Executors: who runs the local training of a cohort, and how many clients at a time.

``in-process`` is the plain one; ``workers`` gives its bits from several processes; ``vectorised`` agrees to float
tolerance. All take their batches from the same keys.
"""

from __future__ import annotations

from .base import Executor, Parts, Trained, chunk_size, one_thread, part_size, parts
from .choose import NAMES, choose, usable_cores
from .in_process import InProcess
from .vectorised import Vectorised
from .workers import Workers

__all__ = [
    "NAMES",
    "Executor",
    "InProcess",
    "Parts",
    "Trained",
    "Vectorised",
    "Workers",
    "choose",
    "chunk_size",
    "one_thread",
    "part_size",
    "parts",
    "usable_cores",
]
