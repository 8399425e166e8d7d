"""The code of docs/tasks.md runs as it is written."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from feddc.cli import main
from tests.data.test_natural import write_plays
from tests.test_docs import PROJECT, blocks

COMMAND = ["--data", "csv:path=diabetes.csv:label=target:task=regression", "--model", "linear", "--lr", "0.01"]
PAGE = (PROJECT / "docs/tasks.md").read_text()
BLOCKS = blocks("docs/tasks.md")


@pytest.mark.parametrize("block", range(len(BLOCKS)))
def test_the_page(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDDC_DATA", str(tmp_path))
    write_plays(tmp_path)
    code = BLOCKS[block]
    assert " ".join(COMMAND) in PAGE
    if "diabetes.csv" in code and block:  # made by the first block
        from sklearn.datasets import load_diabetes

        load_diabetes(as_frame=True, scaled=False).frame.to_csv("diabetes.csv", index=False)
        with pytest.raises(SystemExit) as ended:  # the page's command, with fewer rounds
            main(["run", *COMMAND, "--out", "runs/diabetes", "--rounds", "3", "--quiet"])
        assert ended.value.code == 0
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, f"docs/tasks.md, block {block}", "exec"), {"__name__": "page"})
    assert "None" not in printed.getvalue().replace("None\n", "", 1)  # rounds_to may not be reached
    assert printed.getvalue().strip()
