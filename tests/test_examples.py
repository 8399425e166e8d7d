"""The examples that a user copies do what they say."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.data.test_natural import write_hospitals

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_own_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example("own_data").main(tmp_path / "hospitals")
    printed = capsys.readouterr().out
    assert printed.startswith("5 clients, best accuracy ")
    assert float(printed.split()[-1].rstrip("%")) > 95


def test_own_model(capsys: pytest.CaptureFixture[str]) -> None:
    example("own_model").main(rounds=3)
    assert "FedDC: best accuracy" in capsys.readouterr().out


def test_hospitals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write_hospitals(tmp_path)
    hospitals = example("hospitals")
    monkeypatch.setattr(hospitals, "RATES", (0.1,))
    monkeypatch.setattr(hospitals, "SETTINGS", {name: hospitals.SETTINGS[name] for name in ("FedAvg", "FedDC")})
    hospitals.main(rounds=1, trials=1, repeats=2, data_dir=str(tmp_path))
    printed = capsys.readouterr().out
    assert printed.count("shown: ") == 2
    assert all(text in printed for text in ("FedDC: lr 0.1, FedDC(alpha=", "| FedAvg | 0.", "majority class: 0.538"))


def test_the_tour_runs_from_data_to_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("plotly", reason="the tour ends with a report, which needs feddc[report]")
    cells = json.loads((EXAMPLES / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert set(names["results"]) == {"fedavg", "scaffold", "feddc"}
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "patients that no hospital trained on" in capsys.readouterr().out
