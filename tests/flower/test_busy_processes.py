"""A SuperLink whose database is locked for longer than Flower waits, as on a machine with too much work.

What Flower does then cannot be changed from here, and the run may end. It says why, sites come back by themselves, and
another run continues. Slow: pytest -m slow tests/flower/test_busy_processes.py
"""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from feddc.flower.new import write_app
from tests.flower.deployment import Deployment, descendants

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
QUICK = "clients=2 epochs=1 test-sites=false"
SENTENCES = ("another run tries again", "run again to continue", "Run again to continue")


def test_a_locked_database_ends_no_run_without_a_sentence(tmp_path: Path) -> None:
    app = tmp_path / "hospitals"
    write_app(app)
    with Deployment(tmp_path) as deployment:
        superlink = deployment.superlink()
        for site in range(2):
            deployment.supernode(site, 2, warm=True)
        run = deployment.run(app, f"{QUICK} rounds=4")
        deployment.until(lambda: deployment.records("hospitals"), 300, "a round is over")
        with closing(sqlite3.connect(tmp_path / "state.db", timeout=60, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")  # until both sites have noticed
            deployment.until(
                lambda: all("an error of its own" in deployment.log(f"node{site}") for site in range(2)), 300, "500"
            )
            database.execute("ROLLBACK")
        if deployment.finish(run) != "finished:completed":
            said = deployment.logs_of(run)
            assert any(sentence in said for sentence in SENTENCES), said
        deployment.stop(superlink)  # its executor may have ended, and then it would begin no other run

        superlink = deployment.superlink()
        assert deployment.finish(deployment.run(app, f"{QUICK} rounds=5")) == "finished:completed"
        records = deployment.records("hospitals")
        assert [record["round"] for record in records] == [1, 2, 3, 4, 5]
        assert records[-1]["participants"] == [0, 1]

        run = deployment.run(app, f"{QUICK} rounds=500")
        deployment.until(lambda: len(deployment.records("hospitals")) > 5, 300, "another round is over")
        [server, *_] = [pid for pid in descendants(superlink.pid) if b"serverapp" in command_of(pid)]
        os.kill(server, signal.SIGTERM)
        deployment.finish(run)
        assert "this run is ended from outside, after round" in deployment.logs_of(run)


def command_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
