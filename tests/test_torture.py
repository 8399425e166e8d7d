"""The short version of `make torture`: kills, damaged directories, and configurations of every kind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torture.damage import damage_runs
from tests.torture.inputs import attempt, try_inputs

PROJECT = Path(__file__).parent.parent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_runs_end_as_if_they_had_not_been() -> None:
    command = [sys.executable, "-m", "tests.torture", "--runs", "8", "--kills", "2", "--executors", "in-process"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"runs=8, kills=(\d+).*different=0, faults=0", done.stdout)
    assert found, done.stdout
    assert int(found[1]) >= 12


def test_damaged_directories_go_on_or_are_refused(tmp_path: Path) -> None:
    tally = damage_runs(60, tmp_path, seed=1)
    assert tally["refused"] > 0
    assert tally["fell back"] > 0
    assert tally["went on"] > 0


def test_any_configuration_starts_or_is_refused() -> None:
    tally = try_inputs(200)
    assert tally["refused"] > 0
    assert tally["started"] > 0


@pytest.mark.parametrize(
    "text",
    [
        "run --model fcn:999999999999",
        "run --model fcn:1180591620717411303424",
        "run --seed 18446744073709551616",
        "run --device meta --executor vectorised",
        "run --participation 1e-300",
        "run --epochs 99999999999999999999",
        "run --data synthetic --clients 2147483648",
        "run --split iid+unbalanced:1e30",
        f"run --checkpoint {'9' * 5000}",
        f"run --rounds {'9' * 5000}",
        "sweep --over lr=0.1,-1",
        "sweep --over executor=in-process,threads",
        "compare --methods fedavg --executor threads",
    ],
    ids=lambda text: text[:60],
)
def test_configurations_that_once_were_not(text: str) -> None:
    """Each of these ended in a traceback, ran for ever, or left files behind."""
    assert attempt((text.split(), None)) == "refused"


@pytest.mark.parametrize(
    "text", ["rounds = " + "9" * 5000, "rounds = " + "[" * 100_000, "\x00", "lr = 1\nlr = 2"], ids=len
)
def test_files_that_once_were_not(text: str) -> None:
    assert attempt((["run"], text)) == "refused"
