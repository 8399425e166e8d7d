"""Many clients: what a round costs, in time and memory, when the cohort stays and the number of clients grows."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import numpy as np

import feddc

COHORT, SAMPLES = 50, 10


def main(clients: int, rounds: int) -> None:
    """Print seconds per round and the memory that the run took beyond its data, as JSON."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((clients * SAMPLES, 30), dtype=np.float32)
    y = rng.permutation(clients * SAMPLES) % 5
    model = feddc.make_model("linear", (30,), 5)  # 155 parameters; imports what there is to import
    before = _memory()
    federation = feddc.Federation.from_arrays(x, y, sizes=[SAMPLES] * clients)
    training = feddc.LocalTraining(epochs=5, batch_size=5)
    cohort = min(COHORT, clients)
    records = list(
        feddc.simulate(feddc.FedDC(), model, federation, rounds=rounds, cohort_size=cohort, training=training)
    )
    seconds = statistics.median(record.seconds for record in records[len(records) // 10 :])
    json.dump({"clients": clients, "seconds": seconds, "megabytes": _memory() - before}, sys.stdout)


def _memory() -> float:
    """Resident memory of this process in MB; NaN where there is no /proc."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), float("nan"))
