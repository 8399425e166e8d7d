"""`--jobs`: cells in processes of their own, with the results of one after the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from feddc.engine.executors import usable_cores
from feddc.study.rundir import read_records
from feddc.study.runinfo import status
from tests.cli.test_cli import SMALL as SHORT, feddc
from tests.cli.test_resume import SMALL, results
from tests.engine.test_workers_faults import children

LONG = ["--rounds", "100000", "--epochs", "1", "--clients", "6", "--methods", "fedavg,feddc", "--checkpoint", "off"]


def begin(out: Path) -> subprocess.Popen[str]:
    """A long comparison, when both of its runs have come to their second round."""
    command = [sys.executable, "-m", "feddc", "compare", *LONG, "--jobs", "2", "--quiet", "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not all((out / name / "records.jsonl").exists() for name in ("fedavg", "feddc")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.3)
    return process


def test_the_same_results_as_one_after_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", *SHORT, "--methods", "fedavg,feddc:alpha=0.1,scaffold"]
    assert feddc(*command, "--out", str(tmp_path / "one")) == 0
    capsys.readouterr()
    assert feddc(*command, "--jobs", "2", "--out", str(tmp_path / "two")) == 0
    assert results(tmp_path / "one") == results(tmp_path / "two")
    names = [{p.name for p in (tmp_path / each).iterdir()} for each in ("one", "two")]
    assert names[0] == names[1]
    printed = capsys.readouterr().out
    assert printed.count("executor: ") == 1
    assert all(word in printed for word in ("FedAvg", "SCAFFOLD", "FedDC", "round 2/2"))


def test_copies_of_the_process_share_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = tmp_path / "loaded"
    (tmp_path / "mine.py").write_text(
        "import feddc\n\n"
        "def digits(request):\n"
        f"    with open({str(loaded)!r}, 'a') as file:\n"
        "        file.write('once ')\n"
        "    return feddc.load('digits', clients=request.clients, seed=request.seed)\n"
    )
    monkeypatch.setenv("FEDDC_CORES", "2")
    own = ["--data", f"{tmp_path / 'mine.py'}:digits", "--methods", "fedavg,feddc"]
    assert feddc("compare", *SHORT, *own, "--jobs", "2", "--out", str(tmp_path / "two"), "--quiet") == 0
    assert loaded.read_text() == ("once " if sys.platform == "linux" else "once once once ")


def test_ctrl_c_keeps_the_round_of_every_run(tmp_path: Path) -> None:
    out = tmp_path / "c"
    process = begin(out)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert said.splitlines() == [
        "feddc: finishing this round and keeping it; press again to stop now",
        f"feddc: interrupted with 2 of 2 runs left: `feddc resume {out}` continues",
    ]
    for name in ("fedavg", "feddc"):
        rounds = len(read_records(out / name / "records.jsonl"))
        assert rounds
        assert (out / name / "checkpoint" / f"manifest-{rounds:08}.json").exists()
    assert len(list(out.glob("plan-*.json"))) == 1


def test_a_killed_parent_leaves_nobody_behind(tmp_path: Path) -> None:
    process = begin(tmp_path / "c")
    workers = children(process.pid)
    assert len(workers) == 2
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() and "Z" not in _state(pid) for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_cell_is_reported_and_the_others_keep_their_round(tmp_path: Path) -> None:
    process = begin(tmp_path / "c")
    os.kill(children(process.pid)[0], signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "was killed by SIGKILL" in said
    kept = [path.parent.name for path in (tmp_path / "c").glob("*/checkpoint")]
    assert len(kept) == 1
    assert {status(path) for path in (tmp_path / "c").iterdir() if path.is_dir()} == {"under way"}


def test_resume_side_by_side(tmp_path: Path) -> None:
    from tests.cli.test_resume import crash

    command = ["compare", *SMALL, "--methods", "fedavg,fedprox,feddc"]
    assert feddc(*command, "--out", str(tmp_path / "whole"), "--quiet") == 0
    crash(3, *command, "--out", str(tmp_path / "parts"))
    assert feddc("resume", str(tmp_path / "parts"), "--jobs", "2", "--quiet") == 0
    assert results(tmp_path / "parts") == results(tmp_path / "whole")


@pytest.mark.parametrize(("share", "cores"), [("1", 1), ("", None), ("0", None), ("x", None), ("99999", None)])
def test_a_share_of_the_cores(share: str, cores: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = usable_cores()
    monkeypatch.setenv("FEDDC_CORES", share)
    assert usable_cores() == (cores or everything)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2]
    except OSError:
        return "Z"
