"""A SuperLink that is too busy ends neither a run nor `feddc flower up`, and an end from outside is explained."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from flwr.app import Message
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

import feddc
from feddc.flower import client_app
from feddc.flower.local import LocalFederation
from feddc.flower.server import patience
from tests.flower import task
from tests.flower.fake import FakeGrid
from tests.flower.test_faults import EVERYONE
from tests.flower.test_parity import coordinator, simulated


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    monkeypatch.setattr(patience, "PAUSE_SECONDS", 0.0)
    caplog.set_level(logging.INFO, "flwr")
    return lambda: "\n".join(record.getMessage() for record in caplog.records)


def failure(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://127.0.0.1:8000/v1/runtime/pull-messages")
    return httpx.HTTPStatusError("database is locked", request=request, response=httpx.Response(status))


class BusyGrid(FakeGrid):
    """Fails twice in every three calls, whatever it is asked for."""

    error: Exception = failure(500)
    calls = 0

    def _struggle(self) -> None:
        self.calls += 1
        if self.calls % 3:
            raise self.error

    def get_node_ids(self) -> list[int]:
        self._struggle()
        return super().get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        self._struggle()
        return super().push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        self._struggle()
        return super().pull_messages(message_ids)


def busy(folder: Path, **settings: Any) -> tuple[Any, BusyGrid]:
    run = coordinator(feddc.FedDC(), folder, **EVERYONE, **settings)
    grid = BusyGrid(client_app(task.load_client, task.make_model), 5, folder / "clients")
    run.members.grid = run.questions.grid = grid
    return run, grid


@pytest.mark.parametrize("error", [failure(500), failure(503), ObjectPushError("id", 1, "session")])
def test_a_run_outlives_a_superlink_that_is_busy(error: Exception, tmp_path: Path, said: Callable[[], str]) -> None:
    run, grid = busy(tmp_path, answer_within=60)
    grid.error = error
    assert [record.participants for record in run.run()] == [(0, 1, 2, 3, 4)] * 4
    _, simulation = simulated(feddc.FedDC(), participation=None)
    torch.testing.assert_close(run.progress.server, simulation.server, rtol=1e-5, atol=1e-6)
    assert "the SuperLink answered with an error of its own; asking again" in said()


def test_a_superlink_that_stays_broken_ends_the_run_with_a_sentence(
    tmp_path: Path, said: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PATIENCE_SECONDS", -1.0)
    run, _ = busy(tmp_path)
    with pytest.raises(feddc.RunError, match=r"has answered with errors of its own for -1 seconds.* run again"):
        list(run.run())
    assert said()


def test_a_refusal_is_not_repeated(tmp_path: Path) -> None:
    run, grid = busy(tmp_path)
    grid.error = failure(401)
    with pytest.raises(httpx.HTTPStatusError):
        list(run.run())
    assert grid.calls == 1


@pytest.mark.parametrize("number", patience.ENDING)
def test_a_run_that_is_ended_from_outside_says_so(number: signal.Signals, said: Callable[[], str]) -> None:
    """What was to be done with the signal is then done."""
    heard: list[int] = []
    before = signal.signal(number, lambda signum, _: heard.append(signum))
    try:
        with patience.explained(lambda: 3):
            signal.raise_signal(number)
        assert heard == [number]
        assert "this run is ended from outside, after round 3" in said()
        assert "Run again to continue" in said()
        with patience.explained(lambda: 3):
            pass
        signal.raise_signal(number)
        assert heard == [number] * 2
        assert said().count("from outside") == 1
    finally:
        signal.signal(number, before)


def test_signals_are_left_alone_in_other_threads() -> None:
    before, within = signal.getsignal(signal.SIGTERM), []

    def look() -> None:
        with patience.explained(lambda: 0):
            within.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert within == [before]


FLWR = """#!/bin/sh
cd {folder}
echo "$@" >> asked
case "$1" in
  ls) n=$(grep -c ^ls asked)
      if [ $n = 1 ]; then echo "[code: 1] the server is busy"
      elif [ $n = 2 ]; then echo '{{"runs": [{{"run-id": "7", "status": "running"}}]}}'
      else echo '{{"runs": [{{"run-id": "7", "status": "finished:completed"}}]}}'; fi;;
esac
"""


def test_up_follows_a_run_whose_log_broke_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("flwr", "flower-superlink", "flower-supernode"):
        (tmp_path / name).write_text(FLWR.format(folder=tmp_path))
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    federation = LocalFederation(tmp_path / "federation", 3)
    monkeypatch.setattr("feddc.flower.local.time.sleep", lambda _: None)
    assert federation.run(Path("hospitals"), "rounds=2") == "finished:completed"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[0] == "run hospitals federation --stream --run-config rounds=2"
    listed = "ls federation --format json"
    assert asked[1:] == [listed, listed, "log 7 federation --stream", listed]
    assert "its log broke off; the run continues" in capfd.readouterr().err


def test_up_keeps_no_database_on_disk_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a database on disk is 'locked' for longer than Flower waits, and the run ends."""
    monkeypatch.setattr("feddc.flower.local.shutil.which", lambda program: program)
    assert LocalFederation(tmp_path, 3)._database == []
    assert LocalFederation(tmp_path, 3, database=True)._database[0] == "--database"
