"""The warm trainer process beside a SuperNode: one for each client, for as long as the node lives."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import feddc
from feddc.flower.client import trainers
from feddc.flower.client.processes import private_folder
from feddc.flower.packets import Packet
from tests.flower.deployment import gone_within, trainers_of

WHO = Packet({"ask": "who"})


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the place of a SuperNode's."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    monkeypatch.setattr(os, "getppid", lambda: process.pid)
    yield process
    process.kill()
    process.communicate()


def spec(folder: Path, load: str = "tests.flower.task:load_client") -> tuple[Any, ...]:
    return load, "tests.flower.task:make_model", (), (("partition-id", 1),), str(folder)


def test_a_trainer_stays_is_replaced_when_it_dies_and_ends_with_the_node(
    node: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    began = time.monotonic()
    assert trainers.answer(spec(tmp_path), WHO).config["samples"] == 13
    first = time.monotonic() - began
    [pid] = trainers_of(tmp_path)
    began = time.monotonic()
    assert trainers.answer(spec(tmp_path), WHO).config["client"] == 1
    assert time.monotonic() - began < first / 3
    assert trainers_of(tmp_path) == [pid]
    os.kill(pid, signal.SIGKILL)
    assert gone_within(5, [pid])
    assert trainers.answer(spec(tmp_path), WHO).config["client"] == 1
    [other] = trainers_of(tmp_path)
    assert other != pid
    node.kill()
    assert gone_within(5, [other])


@pytest.mark.usefixtures("node")
def test_only_its_owner_can_reach_a_trainer(tmp_path: Path) -> None:
    assert trainers.answer(spec(tmp_path), WHO)
    folder = private_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(sock.stat().st_mode) & 0o077 == 0 for sock in folder.glob("*.sock"))


def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    private_folder().chmod(0o755)
    with pytest.raises(feddc.WorkerError, match="must be a folder that only its owner can enter"):
        private_folder()


@pytest.mark.usefixtures("node")
def test_what_the_users_code_raises_is_reported_and_the_trainer_stays(tmp_path: Path) -> None:
    broken = spec(tmp_path, "tests.flower.task:load_test")  # it takes no node
    for _ in range(2):
        with pytest.raises(feddc.WorkerError, match=r"^the trainer failed: error 'code' at flower/client/training.py:"):
            trainers.answer(broken, WHO)
    log = (tmp_path / "trainer-1.log").read_text()  # the site's own: here the text may be
    assert log.count("TypeError: load_test() takes 0 positional arguments") == 2
    assert len(trainers_of(tmp_path)) == 1
    assert trainers.answer(spec(tmp_path), WHO).config["client"] == 1  # the app was changed: a new one in its place
    deadline = time.monotonic() + 5
    while len(trainers_of(tmp_path)) > 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(trainers_of(tmp_path)) == 1
