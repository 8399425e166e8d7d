"""The benchmark runs. How fast is not a matter for a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import plain
from benchmarks.__main__ import main
from benchmarks.floor import step_flops
from benchmarks.workloads import WORKLOADS


@pytest.mark.filterwarnings("ignore:this processor has no bfloat16")
def test_a_smoke_run_of_the_benchmark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    main(["synthetic", "fcn", "many", "large", "start", "--smoke", "--repeats", "1", "--json", str(file)])
    results = json.loads(file.read_text())
    workloads = {row["workload"]: [] for row in results["rows"]}
    for row in results["rows"]:
        workloads[row["workload"]].append(row["contestant"].partition(",")[0])
        assert row["step"]["median"] > 0
    assert list(workloads) == ["synthetic", "fcn"]
    assert all(each[0] == "plain loop" and each[-1] == "floor" for each in workloads.values())
    assert {"in-process", "vectorised"} < set(workloads["synthetic"])
    assert {"in-process", "workers"} < set(workloads["fcn"])
    assert {"workers, bf16", "floor, bf16"} < {row["contestant"] for row in results["rows"]}
    assert all(row["memory"] > 0 for row in results["rows"] if row["contestant"] == "workers")
    assert [each["clients"] for each in results["many"]] == [60]
    assert [each["executor"] for each in results["large"]] == ["in-process", "workers"]
    assert results["start"]["median"] > 0
    assert "plain" in capsys.readouterr().out


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_takes_a_step(name: str) -> None:
    workload = WORKLOADS[name](True)
    assert plain.seconds_per_step(workload, 1, 1) > 0
    assert step_flops(workload) > 0
