"""`feddc flower up`: a whole federation in one command, which leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import feddc
from tests.flower.deployment import BIN, OFFLINE, descendants, gone_within

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_ends_with_it(number: int, tmp_path: Path) -> None:
    env = {**os.environ, **OFFLINE, "PATH": f"{BIN}:{os.environ['PATH']}"}
    env["PYTHONPATH"] = str(Path(feddc.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "feddc", "flower", "up", "--sites", "2", "--folder", "here"],
        cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.readline() == "a federation of 2 sites; its logs are in here/\n"
    assert process.stdout.readline().startswith("export FLWR_HOME=")
    below = descendants(process.pid)
    assert len(below) >= 3
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == {signal.SIGTERM: 143, signal.SIGINT: 130}[signal.Signals(number)]
    assert gone_within(10, below)
    assert {path.name for path in (tmp_path / "here").glob("*.log")} == {"superlink.log", "node0.log", "node1.log"}
