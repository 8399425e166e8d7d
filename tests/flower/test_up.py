"""`feddc flower up`: a whole federation in one command, which leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import feddc
from feddc.flower.new import write_app
from tests.flower.deployment import BIN, OFFLINE, descendants, gone_within

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    env = {**os.environ, **OFFLINE, "PATH": f"{BIN}:{os.environ['PATH']}"}
    env["PYTHONPATH"] = str(Path(feddc.__file__).parents[1])
    command = [sys.executable, "-m", "feddc", "flower", "up", *words, "--sites", "2", "--folder", "here"]
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_ends_with_it(number: int, tmp_path: Path) -> None:
    process = start(tmp_path)
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


def test_a_run_continues_when_its_log_breaks_off(tmp_path: Path) -> None:
    """A busy SuperLink ends the log of a run: once, that was taken for the end of the run, and all was stopped."""
    write_app(tmp_path / "hospitals")
    process = start(tmp_path, "hospitals", "--run-config", "clients=2 rounds=2 epochs=1 test-sites=false")
    assert process.stdout
    for line in process.stdout:
        if "with feddc begins" in line:
            break
    streams = [pid for pid in descendants(process.pid) if b"--stream" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    for pid in streams:
        os.kill(pid, signal.SIGKILL)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    assert streams
    assert "its log broke off; the run continues" in output
    assert "round 2/2" in output
