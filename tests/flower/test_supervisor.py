"""`feddc flower node` keeps its SuperNode running while the SuperLink refuses it, and ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from feddc.flower.client import supervisor
from feddc.flower.client.node import _attempts
from tests.flower.deployment import descendants, gone_within

REFUSED_TWICE = """
n=$(cat count 2>/dev/null || echo 0); echo $((n + 1)) > count
[ $n -lt 2 ] || { echo "let in: $@"; exit 7; }
echo "Exit Code: 305" >&2; echo "Failed to activate SuperNode" >&2; exit 1
"""


def script(folder: Path, text: str) -> str:
    path = folder / "supernode"
    path.write_text(f"#!/bin/sh\ncd {folder}\n{text}")
    path.chmod(0o700)
    return str(path)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # pytest's own stay


def test_a_node_that_is_refused_tries_until_it_is_let_in(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert supervisor.supervise([script(tmp_path, REFUSED_TWICE), "--root-certificates", "ca.crt"], os.environ) == 7
    output, errors = capfd.readouterr()
    assert output == "let in: --root-certificates ca.crt\n"
    assert errors.count("has not let this SuperNode in") == 2
    assert errors.count("Failed to activate SuperNode") == 2


LOSES_ITS_SUPERLINK = """
n=$(cat count 2>/dev/null || echo 0); echo $((n + 1)) > count
[ $n -lt 1 ] || exit 7
echo "ERROR : Failed to send message 1: Server error '500 Internal Server Error' for url '$1/v1/fleet/push-object'" >&2
echo "it continues" >&2
echo "ERROR : Server error '500 Internal Server Error' for url '$1/v1/fleet/pull-messages'" >&2
exec sleep 600
"""


def test_a_node_that_stays_without_its_superlink_is_started_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Flower's own command would stay for ever, and take part in no round."""
    assert supervisor.supervise([script(tmp_path, LOSES_ITS_SUPERLINK), "http://127.0.0.1:8000"], os.environ) == 7
    errors = capfd.readouterr().err
    assert "it continues" in errors
    assert errors.count("the SuperLink answered with an error of its own (status 500; its log says why)") == 1


def test_a_message_that_was_lost_is_no_reason_to_start_again(tmp_path: Path) -> None:
    lost = LOSES_ITS_SUPERLINK.replace("exec sleep 600", "exit 3").splitlines()
    text = "\n".join(line for line in lost if "pull-messages" not in line)
    assert supervisor.supervise([script(tmp_path, text), "http://127.0.0.1:8000"], os.environ) == 3


def test_it_tries_no_more_often_than_asked_for(tmp_path: Path) -> None:
    assert supervisor.supervise([script(tmp_path, REFUSED_TWICE)], os.environ, 2) == 1
    assert (tmp_path / "count").read_text() == "2\n"


@pytest.mark.parametrize(("text", "code"), [("exit 0", 0), ("echo other >&2; exit 1", 1), ("kill -9 $$", 137)])
def test_every_other_end_is_an_end(text: str, code: int, tmp_path: Path) -> None:
    assert supervisor.supervise([script(tmp_path, f"echo x >> count\n{text}")], os.environ) == code
    assert (tmp_path / "count").read_text() == "x\n"


def test_max_retries_of_flower() -> None:
    assert _attempts(["--superlink", "a:1"]) is None
    assert _attempts(["--max-retries", "3", "--insecure"]) == 4
    assert _attempts(["--max-retries=0"]) == 1


ALONE = """
import os, sys
from feddc.flower.client.supervisor import supervise
sys.exit(supervise(sys.argv[1:], os.environ))
"""


def start(folder: Path, text: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", ALONE, script(folder, text)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_passed_on_and_no_other_is_started(number: int, tmp_path: Path) -> None:
    name = {signal.SIGTERM: "TERM", signal.SIGINT: "INT"}[signal.Signals(number)]
    text = f"trap 'echo \"Exit Code: 305\" >&2; exit 4' {name}\necho ready\nwhile :; do sleep 0.05; done"
    process = start(tmp_path, text)
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == 4


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends a process with its parent")
def test_a_node_ends_with_its_supervisor(tmp_path: Path) -> None:
    process = start(tmp_path, "echo ready\nexec sleep 60")
    below = descendants(process.pid)
    assert below
    process.kill()
    process.communicate(timeout=20)
    assert gone_within(5, below)
