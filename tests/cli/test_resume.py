"""`feddc resume` as a user meets it: runs, comparisons, sweeps, reproductions, folders of them, and old directories."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest

from feddc.study.rundir import RunDir, read_records
from feddc.study.runinfo import status
from feddc.study.runner import read_outcome
from tests.cli.test_cli import feddc
from tests.study.test_resume import CrashError, result

OLD = Path(__file__).parent.parent / "study" / "format-1"
SMALL = ["--rounds", "4", "--epochs", "1", "--clients", "6", "--model", "fcn:4", "--executor", "in-process"]
SMALL += ["--checkpoint", "1", "--quiet"]


def crash(after: int, *command: str) -> None:
    """Let a command end abruptly at the checkpoint that is so many checkpoints away."""
    write, left = RunDir.checkpoint, after

    def checkpoint(self: RunDir, *args: object, **options: object) -> None:
        nonlocal left
        write(self, *args, **options)  # type: ignore[arg-type]
        left -= 1
        if not left:
            raise CrashError

    from feddc.cli import main

    with mock.patch.object(RunDir, "checkpoint", checkpoint), pytest.raises(CrashError):
        main(list(command))


def results(out: Path) -> dict[str, object]:
    return {path.parent.name: result(path.parent) for path in sorted(out.rglob("summary.json"))}


def test_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert feddc("run", *SMALL, "--out", str(tmp_path / "whole")) == 0
    crash(2, "run", *SMALL, "--out", str(tmp_path / "run"))
    assert feddc("run", *SMALL, "--out", str(tmp_path / "run")) == 2
    assert f"(`feddc resume {tmp_path / 'run'}` continues it)" in capsys.readouterr().err
    assert feddc("resume", str(tmp_path / "run"), "--quiet") == 0
    captured = capsys.readouterr()
    assert captured.err == f"feddc: {tmp_path / 'run'}: continuing after round 2\n"
    assert captured.out == ""
    assert result(tmp_path / "run") == result(tmp_path / "whole")
    assert feddc("resume", str(tmp_path / "run")) == 0
    assert "nothing in" in capsys.readouterr().out


def test_a_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", *SMALL, "--methods", "fedavg,scaffold,feddc:alpha=0.1,feddc:alpha=1"]
    assert feddc(*command, "--out", str(tmp_path / "whole")) == 0
    crash(5, *command, "--out", str(tmp_path / "parts"))  # in the second of four
    assert feddc("resume", str(tmp_path / "parts")) == 0
    assert "speed-up" in capsys.readouterr().out
    assert results(tmp_path / "parts") == results(tmp_path / "whole")
    assert len(results(tmp_path / "parts")) == 4
    names = [{p.name for p in (tmp_path / each).iterdir()} for each in ("whole", "parts")]
    assert names[0] == names[1]
    assert "convergence.png" in names[0]


def test_a_sweep_by_either_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sweep", *SMALL, "--over", "alpha=0.01,0.1", "--over", "seed=0,1", "--out"]
    assert feddc(*command, str(tmp_path / "whole")) == 0
    for how in ("resume", "again"):
        out = tmp_path / how
        crash(5, *command, str(out))
        [interrupted] = [path for path in out.iterdir() if status(path) == "under way"]
        if how == "again":  # as an older feddc named it
            interrupted.rename(interrupted.with_name(interrupted.name + ".part"))
        assert feddc(*(["resume", str(out)] if how == "resume" else [*command, str(out)])) == 0
        assert "continuing after round 2" in capsys.readouterr().err
        assert results(out) == results(tmp_path / "whole")
        assert len(results(out)) == 4
        assert not list(out.glob("plan-*"))


def test_a_reproduction_makes_its_page(tmp_path: Path) -> None:
    out, report = tmp_path / "cells", tmp_path / "pages"
    chosen = ["accuracy", "--data", "synthetic", "--split", "0-0", "--participation", "0.15"]
    command = ["reproduce", *chosen, "--methods", "fedavg,feddc", "--rounds", "3", "--quiet", "--out", str(out)]
    with mock.patch("feddc.study.interval.Interval.due", return_value=True):
        crash(3, *command, "--report", str(report))
    assert not report.exists()
    assert feddc("resume", str(out), "--quiet") == 0
    page = (report / "accuracy-synthetic.md").read_text()
    made = f"feddc reproduce {' '.join(chosen)} --methods fedavg,feddc --rounds 3 --report {report}"
    assert f"Made by `{made}`" in page  # as it was typed, although `resume` made it
    assert len(results(out)) == 2


def test_a_folder_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert feddc("run", *SMALL, "--out", str(tmp_path / "runs" / "done")) == 0
    crash(1, "run", *SMALL, "--out", str(tmp_path / "runs" / "a"))
    crash(2, "compare", *SMALL, "--methods", "fedavg,fedprox", "--out", str(tmp_path / "runs" / "b"))
    crash(3, "run", *SMALL, "--seed", "1", "--out", str(tmp_path / "runs" / "deep" / "c"))
    (tmp_path / "runs" / "deep" / "c" / "config.toml").write_text("lr = 7\n")
    assert feddc("resume", str(tmp_path / "runs"), "--quiet") == 2
    error = capsys.readouterr().err
    assert "config.toml was changed" in error
    assert error.endswith(f"1 of 3 in {tmp_path / 'runs'} could not be continued\n")
    assert set(results(tmp_path / "runs")) == {"done", "a", "fedavg", "fedprox"}
    assert results(tmp_path / "runs")["a"] == results(tmp_path / "runs")["done"]


def test_ctrl_c_says_how_to_continue(tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "feddc",
        "run",
        "--rounds",
        "100000",
        "--epochs",
        "1",
        "--out",
        str(out),
        "--quiet",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (out / "records.jsonl").exists() or not (out / "records.jsonl").stat().st_size:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    first, last = said.splitlines()
    assert first == "feddc: finishing this round and keeping it; press again to stop now"
    rounds = len(read_records(out / "records.jsonl"))
    assert last == f"feddc: interrupted after round {rounds}: `feddc resume {out}` continues"
    assert list(out.glob(f"checkpoint/manifest-{rounds:08}.json"))


def test_an_old_directory_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Format 1: no run.json, no checkpoints."""
    shutil.copytree(OLD, tmp_path / "old")
    outcome = read_outcome(tmp_path / "old")
    assert len(outcome.records) == 2
    assert outcome.records[0].rejected == ()
    assert feddc("resume", str(tmp_path / "old")) == 0
    assert "nothing in" in capsys.readouterr().out


def test_an_old_directory_that_is_unfinished_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(OLD, tmp_path / "old", ignore=shutil.ignore_patterns("summary.json", "model.safetensors"))
    assert feddc("resume", str(tmp_path / "old")) == 2
    assert f"format 1, without checkpoints: `feddc run --config {tmp_path}/old/config.toml`" in capsys.readouterr().err


def test_a_newer_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crash(2, "run", *SMALL, "--out", str(tmp_path / "run"))
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps(info | {"format": 99}))
    assert feddc("resume", str(tmp_path / "run")) == 2
    assert "has format 99, but this feddc reads up to 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is corrupted"),
        ('{"format": 2}', "is corrupted"),
        ('{"format": 99}', "made by a newer feddc"),
        ('{"format": 2, "kind": "compare", "stem": "", "cells": [{"config": {"lr": 1}}]}', "is corrupted"),
        ("[" * 100_000, "is corrupted"),
    ],
    ids=lambda text: text[:30],
)
def test_a_damaged_plan(content: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan-01234567.json").write_text(content)
    assert feddc("resume", str(tmp_path)) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert feddc("resume", str(tmp_path / "none")) == 2
    assert "there is no folder" in capsys.readouterr().err
