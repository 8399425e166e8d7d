"""Memory with a state far larger than it: 500 clients, the CIFAR CNN, FedDC, and everyone takes part."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

import torch

import feddc


def main(executor: str, clients: int) -> None:
    """Print the size of the state and the largest anonymous memory of this process and of its workers, as JSON."""
    peak = Peak()
    samples = torch.randn(2 * clients, 3, 32, 32), torch.arange(2 * clients) % 10
    federation = feddc.Federation.from_arrays(*samples, sizes=[2] * clients)
    model = feddc.make_model("cnn", federation.shape, federation.classes)
    training = feddc.LocalTraining(epochs=1, batch_size=2)
    run = feddc.simulate(feddc.FedDC(), model, federation, rounds=2, training=training, executor=executor)
    records = list(run)
    assert all(len(record.participants) == clients for record in records)
    vector = sum(each.nbytes for each in model.parameters())
    found = {"clients": clients, "executor": executor, "state": 2 * clients * vector / 1e6}
    json.dump(found | {"parent": peak.parent, "worker": peak.worker}, sys.stdout)


class Peak:
    """The largest anonymous memory so far, in MB, looked up fifty times a second; 0 where there is no /proc."""

    def __init__(self) -> None:
        self.parent = self.worker = self.workers = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        while children.exists():
            self.parent = max(self.parent, _anonymous("self"))
            each = [_anonymous(child) for child in children.read_text().split()]
            self.worker, self.workers = max([self.worker, *each]), max(self.workers, sum(each))
            time.sleep(0.02)


def _anonymous(pid: str) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return 0.0
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("RssAnon")), 0.0)
