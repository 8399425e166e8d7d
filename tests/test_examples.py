"""The examples that a user copies do what they say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

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
