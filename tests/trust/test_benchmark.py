"""The tables of docs/security.md can be made."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.trust import main


@pytest.mark.parametrize("table", ["attacks", "cuts", "recovery", "privacy", "secure"])
def test_smoke_runs_of_the_tables(table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([table, "--smoke", "--out", str(tmp_path / "cells.jsonl")])
    shown = capsys.readouterr().out
    assert shown.count("|---") >= 1
    if table in ("attacks", "cuts", "privacy"):  # the second time from what was kept
        main([table, "--smoke", "--out", str(tmp_path / "cells.jsonl")])
        assert capsys.readouterr().out == shown
