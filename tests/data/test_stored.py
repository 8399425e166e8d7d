"""Bytes stay bytes, and files stay files, until a batch or a client needs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import feddc
from feddc.data.stored import Pixels
from feddc.engine import local

from . import formats

TRAINING = feddc.LocalTraining(epochs=2, batch_size=4, lr=0.01)


def pictures() -> tuple[np.ndarray, np.ndarray]:
    return formats.pixels(24, 1, 4, 4), np.arange(24) % 3


def run(federation: feddc.Federation, executor: str = "in-process") -> list[dict[str, float]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    options: Any = {"executor": executor, "workers": 2 if executor == "workers" else None}
    records = feddc.train(feddc.FedDC(), model, federation, rounds=2, training=TRAINING, **options).records
    return [dict(record.metrics) for record in records]


@pytest.mark.parametrize("executor", ["in-process", "workers", "vectorised"])
def test_bytes_train_as_their_floats_do(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = pictures()
    sizes, pixels = [10, 14], Pixels((0.5,), (0.25,))
    stored = feddc.Federation.from_arrays(x, y, sizes=sizes, test=(x, y))
    assert stored.x.dtype == torch.uint8
    assert stored.client_samples(0)[0].dtype == torch.float32
    floats = x.astype(np.float32)
    assert run(stored, executor) == run(
        feddc.Federation.from_arrays(floats, y, sizes=sizes, test=(floats, y)), executor
    )
    from dataclasses import replace

    scaled = pixels(torch.from_numpy(x)).numpy()
    wanted = run(feddc.Federation.from_arrays(scaled, y, sizes=sizes, test=(scaled, y)), executor)
    assert run(replace(stored, pixels=pixels), executor) == wanted
    monkeypatch.setattr(local, "LARGE", 1)  # as floats a batch at a time
    assert run(replace(stored, pixels=pixels), executor) == wanted


@pytest.mark.parametrize("executor", ["in-process", "workers"])
def test_a_mapped_file_trains_as_the_array_does(executor: str, tmp_path: Path) -> None:
    x, y = pictures()
    numbers = x.astype(np.float32) / 255
    mapped = np.memmap(tmp_path / "x.bin", np.float32, "w+", shape=numbers.shape)
    mapped[:] = numbers
    mapped.flush()
    options: Any = {"sizes": [10, 14], "test": (numbers, y), "holdout": 0.2}
    stored = feddc.Federation.from_arrays(
        np.memmap(tmp_path / "x.bin", np.float32, "r", shape=numbers.shape), y, **options
    )
    assert run(stored, executor) == run(feddc.Federation.from_arrays(numbers, y, **options), executor)
    with pytest.raises(feddc.ConfigError, match="mapped from a file trains one client at a time"):
        run(stored, "vectorised")


def test_mapped_files_that_cannot_be_used(tmp_path: Path) -> None:
    x = np.memmap(tmp_path / "x.bin", np.float32, "w+", shape=(8, 3))
    y = np.arange(8) % 2
    with pytest.raises(feddc.DataError, match=r"whole numpy.memmap of numbers"):
        feddc.Federation.from_arrays(x.T, np.arange(3), sizes=[3])
    whole = feddc.Federation.from_arrays(x, y, sizes=[4, 4])
    x[5] = np.nan
    x.flush()
    with pytest.raises(feddc.DataError, match="has NaN or Inf in its training samples"):
        whole.client_samples(1)
    (tmp_path / "x.bin").unlink()
    with pytest.raises(feddc.DataError, match="cannot be used"):
        whole.client_samples(0)


SCRIPT = """
import resource, sys
import numpy as np
import torch, feddc
from torch import nn
file, rows, columns = sys.argv[1], int(sys.argv[2]), 1000
x = np.memmap(file, np.float32, "r", shape=(rows, columns))
federation = feddc.Federation.from_arrays(x, np.arange(rows) % 2, sizes=[rows // 100] * 100)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
feddc.train(feddc.FedAvg(), nn.Linear(columns, 2), federation, rounds=1, cohort_size=10, executor="in-process")
print(before / 1024, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def test_a_mapped_file_is_not_read_whole(tmp_path: Path) -> None:
    """A sparse file of 400 MB, a tenth of its clients: the process grows by a client or two, not by the file."""
    rows = 100_000
    with (tmp_path / "x.bin").open("wb") as file:
        file.truncate(rows * 1000 * 4)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "x.bin"), str(rows)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    before, after = map(float, done.stdout.split())
    assert after - before < 60
