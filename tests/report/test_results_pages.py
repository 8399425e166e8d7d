"""Every page of docs/results is made from the data beside it: the command printed on it makes it again."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from feddc.report import pages, summary
from feddc.report.lines import Setting
from tests.cli.test_cli import feddc

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PAGES = sorted(file.name for file in RESULTS.glob("*.md") if "\nMade by `feddc " in file.read_text(encoding="utf-8"))


def test_all_data_has_a_page() -> None:
    assert {file.stem for file in RESULTS.glob("*.json")} <= {name.removesuffix(".md") for name in PAGES}
    assert "summary.md" in PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_its_data_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "docs" / "results"
    folder.mkdir(parents=True)
    for file in RESULTS.glob("*.json"):
        shutil.copy(file, folder)
    monkeypatch.chdir(tmp_path)
    for drawing in ("save_picture", "save_dots"):
        monkeypatch.setattr(pages, drawing, _named)  # drawing takes a second for each picture
    monkeypatch.setattr(summary, "save_picture", lambda _, path: path.touch())
    text = (RESULTS / name).read_text(encoding="utf-8")
    [command] = re.findall(r"^Made by `feddc ([^`]+)`", text, re.MULTILINE)
    assert feddc(*shlex.split(command), "--stored", "--quiet", "--out", "none") == 0
    assert (folder / name).read_text(encoding="utf-8") == text
    made = {file.name for file in folder.glob("*.png")}
    assert made == set(re.findall(r"\]\(([^)]+\.png)\)", text))
    assert all((RESULTS / each).is_file() for each in made)


@pytest.mark.parametrize(("lines", "file"), [(12, "x-a-title.png"), (13, "x-a-title-dots.png")])
def test_more_than_twelve_lines_are_dots(
    lines: int, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = SimpleNamespace(config=None, lines=[SimpleNamespace(ran=True)] * lines)
    for drawing in ("save_picture", "save_dots"):
        monkeypatch.setattr(pages, drawing, _named)
    monkeypatch.setattr(pages, "describe", lambda _: "a title")
    assert pages.pictures(tmp_path, "x", [setting]) == [("a title", file)]  # type: ignore[list-item]
    assert [each.name for each in tmp_path.iterdir()] == [file]


def _named(setting: Setting, path: Path) -> bool:
    drawn = any(line.ran for line in setting.lines)
    if drawn:
        path.touch()
    return drawn
