"""Many clients: what a round costs, in time and memory, when the cohort stays and the number of clients grows."""

from __future__ import annotations

import json
import resource
import statistics
import sys

import numpy as np

import feddc

COHORT, SAMPLES = 50, 10


def main(clients: int, rounds: int) -> None:
    """Print seconds per round and the memory that the run took beyond its data, as JSON."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((clients * SAMPLES, 30), dtype=np.float32)
    y = rng.permutation(clients * SAMPLES) % 5
    model = feddc.make_model("linear", (30,), 5)  # 155 parameters; imports what there is to import
    before = _resident()
    federation = feddc.Federation.from_arrays(x, y, sizes=[SAMPLES] * clients)
    training = feddc.LocalTraining(epochs=5, batch_size=5)
    options = {"rounds": rounds, "cohort_size": min(COHORT, clients), "training": training}
    records = list(feddc.simulate(feddc.FedDC(), model, federation, **options))
    seconds = statistics.median(record.seconds for record in records[len(records) // 10 :])
    json.dump({"clients": clients, "seconds": seconds, "megabytes": (_resident() - before) / 2**20}, sys.stdout)


def _resident() -> int:
    """The most memory that the process ever had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
