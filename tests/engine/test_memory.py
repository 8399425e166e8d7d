"""What a run keeps in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import feddc
from feddc.data.sharing import named_tensors
from feddc.engine.executors import InProcess
from feddc.engine.local import kernel as local
from feddc.engine.local.kernel import Job, Start
from feddc.models import FlatModel

SCRIPT = """
import json, os
from dataclasses import replace
from pathlib import Path
import numpy as np
import feddc
from feddc.data.stored import Pixels

def private(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous"))

rng = np.random.default_rng(0)
x, y = rng.integers(0, 256, size=(60_000, 3, 32, 32), dtype=np.uint8), rng.integers(10, size=60_000)
federation = feddc.Federation.from_arrays(x[:50_000], y[:50_000], clients=100, test=(x[50_000:], y[50_000:]))
federation = replace(federation, pixels=Pixels((0.5,) * 3, (0.25,) * 3))
del x
model = feddc.make_model("cnn", federation.shape, federation.classes)
training = feddc.LocalTraining(steps=2)
run = feddc.Simulation(
    feddc.FedDC(), model, federation, rounds=1, cohort_size=4, training=training, executor="workers", workers=2
)
run.step()
children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
print(json.dumps([private(pid) for pid in ["self", *children]]))
run.executor.close()
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's account of memory")
def test_a_data_set_of_the_size_of_cifar_takes_less_than_a_gigabyte_with_workers() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    parent, *workers = json.loads(done.stdout)
    assert len(workers) == 2
    assert parent + sum(workers) < 1e9
    assert max(workers) < 350e6  # as bytes the images are 184 MB, as floats 737 MB: a worker has a copy of neither


def test_a_block_is_evaluated_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 1, 8, 8)).astype(np.float32), rng.integers(3, size=40)
    federation = feddc.Federation.from_arrays(x[:10], y[:10], sizes=[5, 5], test=(x[10:], y[10:]))
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    flat, blocks = FlatModel(module), federation.blocks("test")
    start = Start(1, flat.params, flat.buffers())

    def measured() -> tuple[int, int, dict[str, float]]:
        job = Job(module, federation, feddc.LocalTraining(), 0, None)
        (found,) = InProcess(job).measure(start, blocks)
        return job.piece, found.samples, {name: float(value) for name, value in found.sums.items()}

    whole, samples, wanted = measured()
    assert whole > 1000 > samples == 30
    one = 2 * 144 + 144 + 3 + 1
    for numbers, size in ((7 * one, 7), (15 * one, 15), (1, 1)):
        monkeypatch.setattr(local, "EVALUATED", numbers)
        piece, samples, found = measured()
        assert (piece, samples) == (size, 30)
        assert found == pytest.approx(wanted)


def test_bytes_are_shared_as_bytes() -> None:
    x = torch.randint(0, 256, (20, 1, 4, 4), dtype=torch.uint8)
    federation = feddc.Federation.from_arrays(x, torch.arange(20) % 2, sizes=[10, 10], test=(x, torch.arange(20) % 2))
    kinds = {name: part.dtype for name, part in named_tensors(federation).items()}
    assert kinds["x.0"] == kinds["test.x.0"] == torch.uint8
