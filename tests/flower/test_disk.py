"""What is on disk after a lost answer, and that it is there for good before it counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import feddc
from feddc.storage import tensors
from tests.flower.test_faults import EVERYONE, grid_of, states
from tests.flower.test_parity import coordinator


def test_a_state_whose_answer_was_lost_is_deleted(tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, rounds=3, **EVERYONE)
    found = []
    for record in run.run():
        found.append([path.name for path in states(tmp_path, 2)])
        grid_of(run).down = {2} if record.round == 1 else set()
    assert found[1] == ["000001.safetensors", "000002.safetensors"]  # of round 2 the server knows nothing
    assert found[2] == ["000001.safetensors", "000003.safetensors"]


def test_a_file_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def seen_fsync(file: int) -> None:
        done.append("fsync")
        fsync(file)

    def seen_replace(self: Path, other: Path) -> Path:
        done.append("replace")
        return replace(self, other)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(Path, "replace", seen_replace)
    tensors.write(tmp_path / "state.safetensors", {"a": torch.ones(2)}, {})
    assert done == ["fsync", "replace", "fsync"]  # the content, the name, the folder


def test_tensors_that_share_memory_are_written_each_for_itself(tmp_path: Path) -> None:
    whole = torch.arange(12.0).view(3, 4)
    given = {"whole": whole, "again": whole, "row": whole[1], "column": whole[:, 1], "turned": whole.t()}
    given |= {"empty": torch.zeros(0), "none": torch.zeros(0, dtype=torch.int64), "number": torch.tensor(3)}
    tensors.write(tmp_path / "all.safetensors", given, {"a": "b"})
    found, about = tensors.read(tmp_path / "all.safetensors")
    assert about == {"a": "b"}
    assert found.keys() == given.keys()
    for name, tensor in given.items():
        assert torch.equal(found[name], tensor), name
        assert found[name].dtype == tensor.dtype
