"""Results in small files, and the pages made from them: measured beside published, with an honest mark for the rest."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import asdict, replace
from itertools import accumulate
from pathlib import Path

import pytest

import feddc
from feddc.engine import Record
from feddc.engine.records import ClientScores
from feddc.paper.studies import Selection, select
from feddc.report import pages, stored
from feddc.report.lines import arrange
from feddc.report.runs import Run, not_run, of_records
from feddc.report.tables import overview, score_table
from feddc.report.tables.columns import rounds_to
from feddc.study.cells import Cell


def run(cell: Cell, *accuracies: float) -> Run:
    records = [Record(i + 1, {"accuracy": a}, (), 600_000, 400_000, 0.5) for i, a in enumerate(accuracies)]
    return of_records(cell.config, records, "finished")


@pytest.fixture
def cells() -> list[Cell]:
    return select("rounds", Selection(["mnist"], ["iid", "d2"], None, ["0.15"], ["fedavg", "feddc"], seeds=(0, 1)))


def place(cells: list[Cell], row: str, column: str, seed: int) -> Cell:
    return next(c for c in cells if (c.row, c.column, c.config.seed) == (row, column, seed))


def tables(cells: list[Cell], runs: dict[str, Run]) -> dict[str, dict[str, list[str]]]:
    settings = arrange([runs.get(cell.key) or not_run(cell.config) for cell in cells])
    return {
        table.title.partition(":")[0]: {label: [entry.text for entry in entries] for label, entries in table.rows}
        for table in overview(settings)
    }


def test_rounds_speedups_and_bytes_beside_the_published(cells: list[Cell]) -> None:
    one, two, base = place(cells, "feddc", "iid", 0), place(cells, "feddc", "iid", 1), place(cells, "fedavg", "iid", 0)
    found = tables(
        cells,
        {one.key: run(one, 0.5, 0.97, 0.99), two.key: run(two, 0.97, 0.98), base.key: run(base, 0.5, 0.6, 0.7, 0.97)},
    )
    assert found["Rounds to 98 %"] == {
        "FedAvg": [">4 | 158", "not run | >600"],
        "FedDC": ["2.5 ± 0.7 | 46", "not run | 62"],
    }
    assert found["Rounds to 96 %"]["FedDC"][0].startswith("1.5 ± 0.7 | ")
    assert found["Speed-up over FedAvg, 96 %"]["FedDC"] == ["2.00×", "not run"]  # over the seed that both have
    assert found["Moved to 98 %"] == {"FedAvg": ["not reached", "not run"], "FedDC": ["2.50 ± 0.71 MB", "not run"]}


def test_best_accuracy_beside_the_published() -> None:
    cells = select("accuracy", Selection(["mnist"], ["iid"], None, ["1"], ["feddc", "feddyn"]))
    found = tables(cells, {cells[0].key: run(cells[0], 0.5, 0.9812, 0.97)})
    assert found["Best accuracy (%)"] == {"FedDyn": ["98.12 | 98.51"], "FedDC": ["not run | 98.45"]}


def test_no_table_of_settings_of_which_nothing_was_run() -> None:
    cells = select("rounds", Selection(["mnist"], ["iid", "d2"], None, None, ["feddc"]))
    ran = place(cells, "feddc", "d2", 0)
    runs = [run(cell, 0.5) if cell is ran else not_run(cell.config) for cell in cells]
    titles = [table.title for table in overview(arrange(runs))]
    assert titles
    assert all("15 % a round" in title for title in titles)
    assert not overview(arrange([not_run(cell.config) for cell in cells]))


def test_results_survive_a_file(tmp_path: Path, cells: list[Cell]) -> None:
    file = tmp_path / "r.json"
    one, two = place(cells, "feddc", "iid", 0), place(cells, "fedavg", "iid", 0)
    stored.save(file, {one.key: run(one, 0.5, 0.97)})
    stored.save(file, {two.key: run(two, 0.25)})  # added, not replaced
    back = stored.load(file)
    assert set(back) == {one.key, two.key}
    assert back[one.key].config == one.config
    assert back[one.key].scores == [0.5, 0.97]
    assert [point.moved for point in back[one.key].points] == [1_000_000, 2_000_000]
    before = file.read_text()
    stored.save(file, back)
    assert file.read_text() == before  # a file holds all that is read from it
    shown = [back.get(cell.key) or not_run(cell.config) for cell in cells]
    text = pages.page(tmp_path, "rounds-mnist", shown, "feddc reproduce").read_text()
    assert "not run" in text
    assert ">1 / 158" in text
    assert "printed as 98.00" in text  # the note on a misprint
    assert len(list(tmp_path.glob("*.png"))) == 1


def test_the_results_of_the_documentation_can_be_read() -> None:
    files = sorted((Path(__file__).parents[2] / "docs" / "results").glob("*.json"))
    assert files
    for file in files:
        assert all(run.scores for run in stored.load(file).values())


@pytest.mark.parametrize("text", ["{", "[1]", "", "1", '{"a": {}}', '{"a": [1]}', '{"a": {"config": {"speed": 1}}}'])
def test_a_foreign_results_file_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text(text)
    with pytest.raises(feddc.RunError, match="not a file of results"):
        stored.load(file)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("accuracy", ["a"], "accuracy must be numbers or null, not 'a'"),
        ("accuracy", 0.5, "not iterable"),
        ("accuracy", [0.5, 0.5], "shorter"),
        ("accuracy", [True], "accuracy must be numbers or null, not True"),
        ("bytes", {"unit": 1, "times": ["z"]}, "bytes must be whole numbers, not 'z'"),
        ("bytes", {"unit": [1], "times": [1]}, "bytes must be whole numbers, not \\[1\\]"),
        ("bytes", [1], "list indices"),
        ("clients", [1], "clients must be an object, not \\[1\\]"),
        ("clients", {"mean": "x"}, "clients must be numbers or null, not 'x'"),
        ("clients", {"scores": ["x"]}, "scores must be numbers or null, not 'x'"),
        ("made", "x", "made must be an object, not 'x'"),
        ("made", {"commit": 1}, "made must be texts, not 1"),
        ("status", "over", "status must be finished, diverged, unfinished or not run, not 'over'"),
        ("config", {"rounds": 0}, "rounds must be"),
    ],
)
def test_a_damaged_results_file_is_refused(
    key: str, value: object, words: str, tmp_path: Path, cells: list[Cell]
) -> None:
    file = tmp_path / "r.json"
    stored.save(file, {"a-cell": run(cells[0], 0.5)})
    content = json.loads(file.read_text())
    content["a-cell"][key] = value
    file.write_text(json.dumps(content))
    with pytest.raises(feddc.RunError, match=f"r.json is not a file of results: in a-cell: .*({words})"):
        stored.load(file)


@pytest.mark.parametrize(
    ("kilobytes", "words"),
    [(["z"], "bytes must be whole numbers, not 'z'"), ([1, 2], "longer"), (1, "must be an iterable")],
)
def test_a_damaged_older_file_is_refused(kilobytes: object, words: str, tmp_path: Path, cells: list[Cell]) -> None:
    file = tmp_path / "r.json"
    packed = {"config": asdict(cells[0].config), "accuracy": [0.5], "kilobytes": kilobytes}
    file.write_text(json.dumps({"a-cell": packed}))
    with pytest.raises(feddc.RunError, match=f"in a-cell: .*({words})"):
        stored.load(file)


def test_where_a_run_comes_from_is_stored(tmp_path: Path, cells: list[Cell]) -> None:
    file, one = tmp_path / "r.json", cells[0]
    made = {"commit": "0123abc", "feddc": "1.0", "torch": "2.13", "processor": "x", "numpy": "2"}
    stored.save(file, {one.key: replace(run(one, 0.5), about={"versions": made}, status="unfinished")})
    back = stored.load(file)[one.key]
    assert back.about["versions"] == {key: made[key] for key in stored.MADE}
    assert back.status == "unfinished"
    assert "| fedavg | 0 | 1, unfinished | 0123abc | float32 | torch 2.13, x |" in pages.origins([back])
    assert "the order of some sums has changed" not in pages.origins([back])
    other = replace(back, config=replace(back.config, model="linear"))
    assert "| fedavg, model linear | 0 |" in pages.origins([back, other])
    bare = replace(back, about={"versions": {"torch": "2.13", "processor": "x"}})
    assert "| not recorded | float32 | torch 2.13, x |" in pages.origins([bare])
    early = replace(back, about={"versions": {"commit": "at or before 2cf957a"}})
    assert "the order of some sums has changed" in pages.origins([early, early])


def test_many_methods_are_rows_of_dots(tmp_path: Path) -> None:
    chosen = select("beyond", Selection(["digits"], seeds=(0, 1)))
    runs = [run(each, 0.5, 0.9, 0.96) for each in chosen[:40]] + [not_run(each.config) for each in chosen[40:]]
    text = pages.page(tmp_path, "beyond-digits", runs, "feddc reproduce").read_text()
    assert [file.name for file in tmp_path.glob("*.png")] == [
        "beyond-digits-digits-dirichlet-0.1-20-clients-30-a-round-dots.png"
    ]
    assert "**Rounds to 95 %: digits, dirichlet:0.1, 20 clients, 30 % a round**" in text
    assert "| FedAvg | 3.0 ± 0.0 |" in text


def test_there_are_no_dots_of_runs_that_were_not_evaluated(tmp_path: Path) -> None:
    """A traceback, of thirteen methods or more on data without a test set."""
    runs = []
    for each in select("beyond", Selection(["digits"]))[:13]:
        runs.append(of_records(each.config, [Record(1, {}, (), 1, 1, 0.5)], "finished"))
    assert "![" not in pages.page(tmp_path, "beyond-digits", runs, "feddc reproduce").read_text()
    assert not list(tmp_path.glob("*.png"))


def test_many_methods_are_compared_with_each_other_also_where_the_paper_has_a_few(tmp_path: Path) -> None:
    """A column beside the paper's would leave most rows empty, and say nothing of differences."""
    runs = [run(each, 0.5, 0.98) for each in select("beyond", Selection(["mnist"], seeds=(0, 1)))]
    text = pages.page(tmp_path, "beyond-mnist", runs, "feddc reproduce").read_text()
    assert "**Rounds to 97 %: mnist, dirichlet:0.3, 100 clients, 15 % a round**" in text
    assert "**Differences from FedAvg: mnist, dirichlet:0.3, 100 clients, 15 % a round**" in text


def test_the_scores_of_single_clients_are_stored_where_there_are_few(tmp_path: Path, cells: list[Cell]) -> None:
    file, one = tmp_path / "r.json", cells[0]
    for clients in (0, 1, 20, 21):
        scores = tuple(0.5 + i / 100 for i in range(clients))
        stored.save(file, {one.key: replace(run(one, 0.5), clients=scores)})
        assert stored.load(file)[one.key].clients == (scores if clients <= 20 else ())


def test_a_run_that_diverged_in_its_first_round_is_stored_and_shown_as_such(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    first, second = select("alpha", Selection(["mnist"], None, None, ["1"], ["alpha=0.1"], seeds=(0, 1)))
    lost = of_records(first.config, [], "diverged")
    stored.save(file, {first.key: lost, second.key: run(second, 0.5)})
    back = stored.load(file)
    assert back[first.key] == lost
    assert (lost.ended, lost.done, lost.bound, lost.scores) == (True, 0, first.config.rounds, [])
    assert not of_records(first.config, [], "unfinished").points
    assert "| feddc:alpha=0.1 | 0 | 0, diverged |" in pages.origins(list(back.values()))
    [alone] = arrange([back[first.key]])
    [both] = arrange(list(back.values()))
    shown = {
        column.key: (column.entries(alone.lines)[0].text, column.entries(both.lines)[0].text)
        for column in score_table(both).columns
    }
    assert shown["best"] == ("diverged", "50.00 (1 diverged)")
    assert shown["seeds"] == ("0, 1 diverged", "1, 1 diverged")
    assert shown["rounds"] == ("0", "0–1")
    assert shown["bytes"] == ("0 bytes", "500 ± 707 kB")
    assert shown["seconds"] == ("–", "–")
    assert rounds_to(0.5).make(alone.lines[0]).text == f">{first.config.rounds}"


def test_processes_that_store_into_one_file_lose_nothing(tmp_path: Path, cells: list[Cell]) -> None:
    file, one = tmp_path / "r.json", cells[0]
    here = multiprocessing.get_context("fork")
    start = here.Barrier(3)

    def store(who: int) -> None:
        start.wait()
        for i in range(10):
            stored.save(file, {f"{who}-{i}": run(one, 0.5)})

    processes = [here.Process(target=store, args=(who,)) for who in range(3)]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    assert [each.exitcode for each in processes] == [0, 0, 0]
    assert len(stored.load(file)) == 30
    assert [each.name for each in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize("sizes", [(448, 448), (2688, 2016, 672), (79_510_417, 79_510_416), (0, 0), (0, 448)])
def test_bytes_survive_a_file_exactly(sizes: tuple[int, ...], tmp_path: Path, cells: list[Cell]) -> None:
    """A linear model moves less than a kilobyte a round."""
    file, one = tmp_path / "r.json", cells[0]
    records = [Record(i, {"accuracy": 0.5}, (), size // 3, size - size // 3, 0.5) for i, size in enumerate(sizes, 1)]
    made = of_records(one.config, records, "finished")
    stored.save(file, {one.key: made})
    back = stored.load(file)[one.key]
    assert [each.moved for each in back.points] == [each.moved for each in made.points] == [*accumulate(sizes)]


def test_an_older_file_with_kilobytes_can_be_read(tmp_path: Path, cells: list[Cell]) -> None:
    file, one = tmp_path / "r.json", cells[0]
    stored.save(file, {one.key: run(one, 0.5, 0.6)})
    content = json.loads(file.read_text())
    del content[one.key]["bytes"]
    content[one.key]["kilobytes"] = [3, 2]
    file.write_text(json.dumps(content))
    assert [each.moved for each in stored.load(file)[one.key].points] == [3000, 5000]


def test_what_is_stored_is_short(tmp_path: Path, cells: list[Cell]) -> None:
    file, one = tmp_path / "r.json", cells[0]
    records = [Record(i, {"accuracy": 1 / 7} if i < 3 else {}, (), 700 * i, 800, 0.26) for i in (1, 2, 3)]
    known = ClientScores.of([1 / 3, 2 / 3], records[0].score)
    records[2] = replace(records[2], clients=known)
    stored.save(file, {one.key: of_records(one.config, records, "finished")})
    [packed] = json.loads(file.read_text()).values()
    assert packed["accuracy"] == [0.14286, 0.14286, None]
    assert packed["bytes"] == {"unit": 100, "times": [15, 22, 29]}
    assert "seconds" not in packed  # of the wall clock of a machine that did other things, too
    assert packed["clients"] == {"mean": 0.5, "worst": 0.33333, "scores": [0.333333, 0.666667]}
