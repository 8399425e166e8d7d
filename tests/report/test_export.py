"""Figures for a paper, and the numbers that they draw."""

from __future__ import annotations

import csv
from pathlib import Path

from feddc.report.collect import collect
from feddc.report.export import export, smooth
from feddc.report.settings import arrange
from tests.report.runs import write_comparison, write_run


def test_every_format_with_its_numbers(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_comparison(tmp_path / "runs" / str(seed), ("fedavg", "feddc:alpha=0.1", "feddc:alpha=1"), seed=seed)
    settings = arrange(collect([tmp_path / "runs"]))
    files = list(export(settings, tmp_path / "out", ["pdf", "png", "svg"]))
    assert sorted(file.name for file in files) == sorted(
        f"{stem}.{kind}" for stem in ("convergence", "drift", "split", "alpha") for kind in ("csv", "pdf", "png", "svg")
    )
    starts = {"pdf": b"%PDF", "png": b"\x89PNG", "svg": b"<?xml"}
    assert all(file.read_bytes().startswith(starts.get(file.suffix[1:], b"")) for file in files)
    with (tmp_path / "out" / "convergence.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 20
    last = [float(row["accuracy"]) for row in rows if row["method"] == "fedavg"][-1]
    wanted = [run.records[-1].accuracy for run in settings[0].lines[0].runs]
    assert abs(last - 50 * sum(each or 0 for each in wanted)) < 1e-2
    assert b"fedavg" in (tmp_path / "out" / "convergence.svg").read_bytes()  # text stays text


def test_settings_have_files_of_their_own_and_what_is_missing_is_left_out(tmp_path: Path) -> None:
    for split in ("iid", "dirichlet:0.1"):
        run = write_run(tmp_path / "runs" / split, split=split, drift=False)
        (run / "split.json").unlink()
    files = list(export(arrange(collect([tmp_path / "runs"])), tmp_path / "out", ["png"]))
    assert sorted(file.name for file in files) == [
        "dirichlet-0.1-convergence.csv",
        "dirichlet-0.1-convergence.png",
        "iid-convergence.csv",
        "iid-convergence.png",
    ]


def test_smooth_keeps_length_and_level() -> None:
    assert smooth([1.0] * 7) == [1.0] * 7
    assert smooth([0.0, 3.0, 0.0], reach=1) == [1.5, 1.0, 1.5]
