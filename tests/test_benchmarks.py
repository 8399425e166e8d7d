"""The benchmark runs. How fast is not a matter for a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

benchmarks = pytest.importorskip("benchmarks.__main__", reason="needs the project's folder, not only the package")


def test_a_smoke_run_of_the_benchmark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    benchmarks.main(["--smoke", "--repeats", "1", "--json", str(file)])
    results = json.loads(file.read_text())
    found = [(row["workload"], row["contestant"]) for row in results["rows"]]
    assert found == [
        *(("synthetic", who) for who in ("plain loop", "in-process", "vectorised", "floor")),
        *(("fcn", who) for who in ("plain loop", "in-process", "workers", "floor")),
        *(("cnn", who) for who in ("plain loop", "in-process", "workers", "floor")),
    ]
    assert all(row["step"]["median"] > 0 for row in results["rows"])
    assert [each["clients"] for each in results["many"]] == [60, 100]
    assert "ms per local step" in capsys.readouterr().out
