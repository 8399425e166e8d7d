"""What pages of version 0.1 said and their runs did not show. `scripts/test-old-page` shows each test failing there.

The tests ask the command line for a page and look at its text, so that they can be put to any version.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from tests.report.by_hand import by_hand, first_screen, main, over_seeds, reaching, report, words


def test_not_reached_is_not_said_of_a_run_under_way(tmp_path: Path) -> None:
    """After 12 of 300 rounds: "fedavg does not reach 95 % in 300 rounds"."""
    by_hand(tmp_path / "runs" / "a", "fedavg", [0.5] * 12, rounds=300)
    text = words(report(tmp_path / "runs"))
    assert "12 of 300" in text
    assert "does not reach" not in text
    assert "in 300 rounds" not in text


@pytest.fixture
def some_seeds(tmp_path: Path) -> Path:
    """FedAvg reaches the target with one of three seeds."""
    over_seeds(tmp_path / "runs", "fedavg", [reaching(n, 34) for n in (27, 99, 99)])
    over_seeds(tmp_path / "runs", "feddc", [reaching(n, 34) for n in (12, 13, 13)])
    return report(tmp_path / "runs")


def test_a_method_that_reaches_the_target_with_one_seed_is_not_said_not_to(some_seeds: Path) -> None:
    """1 of 3 seeds: "does not get there"."""
    text = words(some_seeds)
    assert "does not get there" not in text
    assert "fedavg not in 34" not in text
    assert "1 of 3 seeds" in text


def test_a_bound_is_one_that_the_seeds_support(some_seeds: Path) -> None:
    """27, >34, >34 against 12, 13, 13 gives >2.5×, not >2.68×."""
    assert ">2.68×" not in words(some_seeds)
    assert ">2.5×" in words(some_seeds)


def test_a_factor_of_one_is_no_claim(tmp_path: Path) -> None:
    """ "1× fewer rounds"."""
    over_seeds(tmp_path / "runs", "fedavg", [reaching(n, 30) for n in (20, 21, 21)])
    over_seeds(tmp_path / "runs", "feddc", [reaching(n, 30) for n in (20, 21, 20)])
    assert not re.search(r"\b1(\.0+)?× fewer", words(report(tmp_path / "runs")))
    assert "no difference" in first_screen(report(tmp_path / "runs"))


def test_no_winner_within_the_noise(tmp_path: Path) -> None:
    """A winner by 0.09 points, with p = 0.42."""
    over_seeds(tmp_path / "runs", "fedavg", [[0.5, 0.9100], [0.5, 0.9130], [0.5, 0.9120]])
    over_seeds(tmp_path / "runs", "feddc", [[0.5, 0.9127], [0.5, 0.9130], [0.5, 0.9120]])
    page = report(tmp_path / "runs")
    assert "most accurate" not in words(page)
    assert "+0.09 points over" not in words(page)
    assert "no difference in best accuracy is shown" in words(page)
    assert "p = 0.42" in words(page)
    assert 'class="best"' not in page.read_text()  # no number in bold


def test_of_a_tie_all_are_named(tmp_path: Path) -> None:
    """Of three methods that took the same rounds, one was named."""
    for method in ("fedavg", "scaffold", "feddc"):
        by_hand(tmp_path / "runs" / method, method, reaching(7, 10))
    text = first_screen(report(tmp_path / "runs"))
    assert "first: in 7 rounds" not in text
    assert all(name in text for name in ("fedavg", "scaffold", "feddc"))
    assert "one seed: no claim" in text


def test_seconds_of_a_clock_are_not_on_the_first_screen(tmp_path: Path) -> None:
    """ "takes 3.3× its time", from how busy the machine was."""
    by_hand(tmp_path / "runs" / "fedavg", "fedavg", reaching(7, 10), seconds=0.010)
    by_hand(tmp_path / "runs" / "feddc", "feddc", reaching(5, 10), seconds=0.033)
    text = first_screen(report(tmp_path / "runs"))
    assert "its time" not in text
    assert "time to" not in text
    assert "seconds" not in text


def test_the_numbers_of_a_figure_are_those_that_it_draws(tmp_path: Path) -> None:
    """`drift.csv` had the cosines of single rounds, and the figure their running mean."""
    cosines = [0.9 * float(np.sin(5.0 * i * i)) for i in range(20)]
    by_hand(tmp_path / "runs" / "a", "feddc", [0.5] * 20, cosines=cosines)
    folder = report(tmp_path / "runs", "--figures", "svg").with_suffix("")
    head, *rows = csv.reader((folder / "drift.csv").read_text(encoding="utf-8").splitlines())
    column = next(i for i, name in enumerate(head) if name.startswith("cosine") and not name.endswith("_sd"))
    numbers = [float(row[column]) for row in rows]
    drawn = re.findall(r'<path d="(M [^"z]+)"', (folder / "drift.svg").read_text(encoding="utf-8"))
    curves = [[float(y) for _, y in re.findall(r"([-\d.]+) ([-\d.]+)", path)] for path in drawn]
    alike = [
        abs(np.corrcoef(each, numbers)[0, 1]) for each in curves if len(each) == len(numbers) and len(set(each)) > 1
    ]
    assert max(alike) == pytest.approx(1, abs=1e-4)


def test_bytes_are_not_rounded_to_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The terminal's table: "MB to 95 %: 0.0"."""
    small = ["--clients", "4", "--rounds", "1", "--epochs", "1", "--participation", "0.25", "--target", "0.01"]
    with pytest.raises(SystemExit):
        main(["compare", "--methods", "fedavg", "--model", "linear", *small, "--out", str(tmp_path / "c")])
    text = capsys.readouterr().out
    assert "fedavg" in text.lower()
    assert not re.search(r"\s0\.0\s", text), text
