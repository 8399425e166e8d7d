"""The options of trust on the command line: what they change is in the records, and mistakes are one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import feddc

SMALL = ["--clients", "6", "--participation", "1", "--epochs", "1", "--model", "linear", "--quiet"]


def run(tmp_path: Path, *options: str) -> list[dict[str, Any]]:
    out = tmp_path / "run"
    assert feddc("run", *SMALL, *options, "--out", str(out)) == 0
    return [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]


def test_an_attack_and_a_defence(tmp_path: Path) -> None:
    honest = run(tmp_path / "a", "--rounds", "4", "--method", "fedavg")[-1]["metrics"]["accuracy"]
    attacked = run(tmp_path / "b", "--rounds", "4", "--method", "fedavg", "--attack", "scale:1")[-1]["metrics"][
        "accuracy"
    ]
    defended = run(tmp_path / "c", "--rounds", "4", "--method", "fedavg", "--attack", "scale:1", "--robust", "norm:1")
    assert attacked < 0.3 < defended[-1]["metrics"]["accuracy"] <= honest + 0.05


def test_epsilon_is_in_the_records_and_ends_the_run(tmp_path: Path) -> None:
    records = run(tmp_path, "--rounds", "60", "--privacy", "central:noise=4", "--epsilon", "3", "--delta", "1e-4")
    spent = [record["epsilon"] for record in records]
    assert 1 < len(records) < 60
    assert spent == sorted(spent)
    assert spent[-1] <= 3
    assert records[-1]["metrics"]["accuracy"] is not None


def test_the_terminal_shows_epsilon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert feddc("run", *SMALL[:-1], "--rounds", "2", "--epsilon", "8", "--out", str(tmp_path / "run")) == 0
    shown = capsys.readouterr().out
    assert "ε 8.00" in shown or "ε 7.99" in shown


@pytest.mark.parametrize("option", [["--robust", "mean"], ["--epsilon", "-1"], ["--secure", "yes"], ["--attack", "x"]])
def test_mistakes_are_one_sentence(tmp_path: Path, option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert feddc("run", *SMALL, *option, "--out", str(tmp_path / "run")) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_attacked_rounds_are_taken_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    honest = run(tmp_path / "a", "--rounds", "4")
    run(tmp_path / "b", "--rounds", "4", "--attack", "scale:1:from=3", "--checkpoint", "1", "--keep", "3")
    out = tmp_path / "b" / "run"
    assert feddc("resume", str(out), "--attack", "none") == 2
    assert "--attack changes a run only together with --rollback" in capsys.readouterr().err
    assert feddc("resume", str(out), "--rollback", "9") != 0
    assert "has run 4 rounds, so 9 cannot be taken back" in capsys.readouterr().err
    assert feddc("resume", str(out), "--rollback", "2", "--attack", "none") == 0
    assert f"rolled back 2 rounds of {out}; attack is none" in capsys.readouterr().out
    again = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert [each["metrics"] for each in again] == [each["metrics"] for each in honest]
    assert len((out / "undone-1.jsonl").read_text().splitlines()) == 2
