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
from feddc.engine.local import batches

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
    monkeypatch.setattr(batches, "LARGE", 1)  # as floats a batch at a time
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


@pytest.mark.parametrize("executor", ["in-process", "workers", "vectorised"])
def test_bytes_that_clients_hold_out_are_judged_as_their_floats(executor: str) -> None:
    x, y = pictures()
    options: Any = {"sizes": [10, 14], "holdout": 0.2, "validation": 0.2}
    stored = feddc.Federation.from_arrays(x, y, **options)
    assert run(stored, executor) == run(feddc.Federation.from_arrays(x.astype(np.float32), y, **options), executor)


@pytest.mark.parametrize("executor", ["in-process", "workers"])
def test_a_mapped_part_of_a_dict_and_a_mapped_test_set(executor: str, tmp_path: Path) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(16, 3)

        def forward(self, picture: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return self.last(picture.flatten(1) * scale.unsqueeze(1))

    x, y = pictures()
    numbers = x.astype(np.float32) / 255
    numbers.tofile(tmp_path / "x.bin")
    mapped = np.memmap(tmp_path / "x.bin", np.float32, "r", shape=numbers.shape)
    scale = np.linspace(1, 2, 24, dtype=np.float32)
    found = []
    for picture in (mapped, numbers):
        test = ({"picture": picture[12:], "scale": scale[12:]}, y[12:])
        federation = feddc.Federation.from_arrays({"picture": picture, "scale": scale}, y, sizes=[10, 14], test=test)
        torch.manual_seed(0)
        options: Any = {"executor": executor, "workers": 2 if executor == "workers" else None}
        result = feddc.train(feddc.FedAvg(), Two(), federation, rounds=2, training=TRAINING, **options)
        found.append([dict(record.metrics) for record in result.records])
    assert found[0] == found[1]


def test_rows_of_a_mapped_file_are_those_that_were_given(tmp_path: Path) -> None:
    numbers = np.arange(30, dtype=np.float32).reshape(10, 3)
    numbers.tofile(tmp_path / "x.bin")
    mapped = np.memmap(tmp_path / "x.bin", np.float32, "r", shape=(10, 3))
    part = feddc.Federation.from_arrays(mapped[2:][2:9], np.arange(6) % 2, sizes=[3, 3])
    assert torch.equal(part.client_samples(1)[0], torch.from_numpy(numbers[7:10]))
    with pytest.raises(feddc.DataError, match="not every other row"):
        feddc.Federation.from_arrays(mapped[::2], np.arange(5) % 2, sizes=[5])


def test_mapped_files_that_cannot_be_used(tmp_path: Path) -> None:
    x = np.memmap(tmp_path / "x.bin", np.float32, "w+", shape=(8, 3))
    y = np.arange(8) % 2
    with pytest.raises(feddc.DataError, match=r"numpy.memmap of numbers, whole or rows that follow each other"):
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
import sys
from pathlib import Path
import numpy as np
import feddc
from torch import nn
rows, columns = 2**18, 2**10
x = np.memmap(sys.argv[1], np.float32, "r", shape=(rows, columns))
federation = feddc.Federation.from_arrays(x, np.arange(rows) % 2, clients=[range(i, rows, 100) for i in range(100)])
training = feddc.LocalTraining(epochs=1, batch_size=500)
feddc.train(
    feddc.FedDC(), nn.Linear(columns, 2), federation, rounds=1, cohort_size=10, training=training, executor="in-process"
)
status = Path("/proc/self/status").read_text()  # getrusage would count the process that forked this one
print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
def test_a_gigabyte_in_a_file_takes_less_than_300_mb_of_memory(tmp_path: Path) -> None:
    """A tenth of the clients. The peak is the process's resident memory: Python, PyTorch, and what is mapped."""
    with (tmp_path / "x.bin").open("wb") as file:
        file.truncate(2**30)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "x.bin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 300
