"""Measured beside published, with an honest mark for what was not reached and what was not run."""

from __future__ import annotations

from pathlib import Path

import pytest

import feddc
from feddc.engine import Record
from feddc.paper.studies import Selection, select
from feddc.report import results
from feddc.report.study import grids, markdown, spread
from feddc.study.cells import Cell


def records(*accuracies: float) -> tuple[Record, ...]:
    return tuple(Record(i + 1, {"accuracy": a}, (), 1_000_000, 0, 0.0) for i, a in enumerate(accuracies))


@pytest.fixture
def cells() -> list[Cell]:
    return select("rounds", Selection(["mnist"], ["iid", "d2"], None, ["0.15"], ["fedavg", "feddc"], seeds=(0, 1)))


def place(cells: list[Cell], row: str, column: str, seed: int) -> Cell:
    return next(c for c in cells if (c.row, c.column, c.config.seed) == (row, column, seed))


def test_rounds_speedups_and_bytes(cells: list[Cell]) -> None:
    runs = {
        place(cells, "feddc", "iid", 0): records(0.5, 0.97, 0.99),
        place(cells, "feddc", "iid", 1): records(0.97, 0.98),
        place(cells, "fedavg", "iid", 0): records(0.5, 0.6, 0.7, 0.97),
    }
    tables = {grid.title.partition(",")[0] + grid.title[-5:]: dict(grid.rows) for grid in grids(cells, runs)}
    rounds = tables["rounds to target 98 %"]
    assert rounds["feddc"] == ("2.5 ± 0.7 | 46", "not run | 62")
    assert rounds["fedavg"] == (">600 | 158", "not run | >600")
    lower = tables["rounds to target 96 %"]
    assert lower["feddc"][0].startswith("1.5 ± 0.7 | ")
    speed = tables["speed-up over FedAvg: mnist 96 %"]
    assert speed["feddc"][0] == "FedAvg not run"  # seed 1 has no FedAvg to compare with
    moved = tables["MB moved to target: mnist 98 %"]
    assert moved["feddc"] == ("2 ± 1", "not run")
    assert moved["fedavg"][0] == "not reached"


def test_some_seeds_reach_the_target_and_some_do_not(cells: list[Cell]) -> None:
    runs = {place(cells, "feddc", "iid", 0): records(0.99), place(cells, "feddc", "iid", 1): records(0.5)}
    [grid] = [g for g in grids(cells, runs) if g.title.startswith("rounds") and g.title.endswith("98 %")]
    assert dict(grid.rows)["feddc"][0] == "1 (1 of 2 seeds, the others >600) | 46"


def test_best_accuracy_beside_the_published() -> None:
    cells = select("accuracy", Selection(["mnist"], ["iid"], None, ["1"], ["feddc", "feddyn"]))
    [grid] = grids(cells, {cells[0]: records(0.5, 0.9812, 0.97)})
    assert dict(grid.rows) == {"feddyn": ("98.12 | 98.51",), "feddc": ("not run | 98.45",)}
    assert "98.12 / 98.51" in markdown(grid)


def test_spread() -> None:
    assert spread([3.0], 1) == "3.0"
    assert spread([1.0, 3.0], 1) == "2.0 ± 1.4"


def test_results_survive_a_file(tmp_path: Path, cells: list[Cell]) -> None:
    file = tmp_path / "r.json"
    one, two = place(cells, "feddc", "iid", 0), place(cells, "fedavg", "iid", 0)
    results.save(file, cells, {one: records(0.5, 0.97)})
    results.save(file, cells, {two: records(0.25)})  # added, not replaced
    back = results.load(file, cells)
    assert set(back) == {one, two}
    assert [r.accuracy for r in back[one]] == [0.5, 0.97]
    assert [r.bytes_up for r in back[one]] == [1_000_000, 1_000_000]
    page = results.page(tmp_path, "rounds-mnist", cells, back, "feddc reproduce")
    text = page.read_text()
    assert "not run" in text
    assert "printed as 98.00" in text  # the note on a misprint
    assert len(list(tmp_path.glob("*.png"))) == 1


@pytest.mark.parametrize("text", ["{", "[1]", ""])
def test_a_foreign_results_file_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(feddc.RunError, match="not a file of results"):
        results.load(tmp_path / "r.json", [])
