"""What tests ask of processes that they have started."""

from __future__ import annotations

import time
from pathlib import Path

LOAD = 10
"""How many times as long things may take on a machine that does other work, too."""


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone_within(seconds: float, pids: list[int]) -> bool:
    """Whether these processes end in this time, or in ten times as long on a loaded machine."""
    deadline = time.monotonic() + LOAD * seconds
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(map(alive, pids))
