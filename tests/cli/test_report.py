"""`feddc report` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_cli import SMALL, feddc
from tests.report.runs import write_run


def test_from_real_runs_to_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert feddc("compare", *SMALL, "--methods", "fedavg,feddc", "--quiet", "--out", str(tmp_path / "c")) == 0
    page = tmp_path / "pages" / "report.html"
    assert feddc("report", str(tmp_path / "c"), "-o", str(page), "--figures", "svg") == 0
    printed = capsys.readouterr().out
    assert "2 runs" in printed
    text = page.read_text()
    assert "feddc compare --methods fedavg,feddc:alpha=0.1 --data digits --clients 6 --rounds 2 --epochs 1" in text
    assert (tmp_path / "pages" / "report" / "drift.svg").exists()


def test_two_commands_to_a_table_and_a_figure_for_a_paper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "c" / "a", method="fedavg")
    write_run(tmp_path / "c" / "b")
    args = ["--latex", str(tmp_path / "tex"), "--csv", str(tmp_path / "csv"), "--target", "0.5"]
    assert feddc("report", str(tmp_path / "c"), "-o", str(tmp_path / "page.html"), *args) == 0
    assert str(tmp_path / "tex" / "convergence-wide.pdf") in capsys.readouterr().out
    assert "Rounds to 50" in (tmp_path / "tex" / "rounds-to-50.tex").read_text()
    assert "Rounds to 50 %" in (tmp_path / "page.html").read_text()
    assert "Rounds to 90 %" not in (tmp_path / "page.html").read_text()


def bad(tmp_path: Path, args: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert feddc("report", *args, "-o", str(tmp_path / "page.html")) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert sorted(tmp_path.rglob("*")) == before  # nothing was written


def test_bad_input_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write_run(tmp_path / "good")
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "cat.jpg").write_text("meow")
    other = write_run(tmp_path / "other", split="iid")
    bad(tmp_path, [], "RUNS", capsys)
    bad(tmp_path, [str(tmp_path / "nowhere")], "there is no folder", capsys)
    bad(tmp_path, [str(tmp_path / "foreign" / "cat.jpg")], "is not a folder", capsys)
    bad(tmp_path, [str(tmp_path / "empty")], "holds no runs of feddc: it is empty", capsys)
    bad(tmp_path, [str(tmp_path / "foreign")], "none of its folders has config.toml and records.jsonl", capsys)
    bad(tmp_path, [str(good), str(other)], "split is 'dirichlet:0.1' in the first and 'iid' in the second", capsys)
    bad(tmp_path, [str(good), "--target", "95"], "--target is a share, such as 0.95 for 95 %, not 95", capsys)
    bad(tmp_path, [str(good), "--figures", "bmp"], "figures are made as pdf, png, svg, not 'bmp'", capsys)
    (good / "summary.json").write_text('{"format": 99}')
    bad(tmp_path, [str(good)], "another version of feddc: its format is 99, not 2", capsys)


def test_the_page_is_not_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "run")
    assert feddc("report", str(tmp_path / "run"), "-o", str(tmp_path)) == 2
    assert "is a folder: -o takes the name of the page" in capsys.readouterr().err
