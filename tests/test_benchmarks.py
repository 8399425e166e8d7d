"""The benchmark runs. How fast is not a matter for a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.__main__ import main
from benchmarks.trust import main as trust


def test_a_smoke_run_of_the_benchmark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    main(["--smoke", "--repeats", "1", "--json", str(file)])
    results = json.loads(file.read_text())
    workloads = {row["workload"]: [] for row in results["rows"]}
    for row in results["rows"]:
        workloads[row["workload"]].append(row["contestant"].partition(",")[0])
        assert row["step"]["median"] > 0
    assert list(workloads) == ["synthetic", "fcn", "cnn"]
    assert all(each[0] == "plain loop" and each[-1] == "floor" for each in workloads.values())
    assert {"in-process", "vectorised"} < set(workloads["synthetic"])
    assert {"in-process", "workers"} < set(workloads["fcn"])
    assert [each["clients"] for each in results["many"]] == [60]
    assert [each["executor"] for each in results["large"]] == ["in-process", "workers"]
    assert results["start"]["median"] > 0
    assert "plain loop" in capsys.readouterr().out


@pytest.mark.parametrize("table", ["attacks", "privacy", "secure"])
def test_smoke_runs_of_the_tables_of_trust(table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trust([table, "--smoke", "--out", str(tmp_path / "cells.jsonl")])
    shown = capsys.readouterr().out
    assert shown.count("|---") >= 1
    trust([table, "--smoke", "--out", str(tmp_path / "cells.jsonl")])  # the second time from what was kept
    if table != "secure":
        assert capsys.readouterr().out == shown
