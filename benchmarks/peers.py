"""Peers, each in an environment of its own: see ``peers.md``.

fedjax is run by the interpreter that the environment variable FEDJAX_PYTHON names; without it the rows are left out.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

SIZES = {  # features, hidden layers, classes, clients, samples a client, batch, epochs: those of workloads.py
    "synthetic": (30, (), 5, 20, 200, 10, 10),
    "fcn": (784, (200, 200), 10, 15, 600, 50, 5),
}


def peer_workload(name: str, smoke: bool) -> Callable[[], float] | None:
    """A function that measures fedjax's seconds per local step of FedAvg on this workload, or None."""
    python = os.environ.get("FEDJAX_PYTHON")
    if python is None or name not in SIZES:
        return None
    features, hidden, classes, clients, samples, batch, epochs = SIZES[name]
    if smoke:
        clients, samples, epochs = 2, 2 * batch, 1
    script = Path(__file__).with_name("peer_fedjax.py")
    numbers = [features, classes, clients, samples, batch, epochs, *hidden]

    def seconds_per_step() -> float:
        command = [python, str(script), *map(str, numbers)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(done.stdout.split()[-1])

    return seconds_per_step
