"""The numbers of the tables, and which of them are bold."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from feddc.report.lines import Reach, Setting, arrange
from feddc.report.runs import collect, not_run
from feddc.report.tables import (
    Table,
    ablation_table,
    compare_table,
    difference_table,
    overview,
    rounds_table,
    score_table,
)
from feddc.report.tables.columns import rounds_text
from feddc.report.tables.differences import ratio
from tests.report.runs import reaching, write_run, write_seeds


def only(path: Path) -> Setting:
    [setting] = arrange(collect([path]))
    return setting


def texts(table: Table, row: str) -> dict[str, str]:
    entries = dict(table.rows)[row]
    return {column.key: entry.text for column, entry in zip(table.columns, entries, strict=True)}


def bold(table: Table) -> set[tuple[str, str]]:
    return {
        (label, column.key)
        for label, entries in table.rows
        for column, entry in zip(table.columns, entries, strict=True)
        if entry.bold
    }


def reach(*rounds: int, of: int = 34) -> list[Reach]:
    """Rounds of some seeds, 0 for one that did not get there."""
    return [Reach(each or of, 0, None, bool(each)) for each in rounds]


def test_a_bound_is_one_that_the_data_supports() -> None:
    pairs = list(zip(reach(27, 0, 0), reach(12, 13, 13), strict=True))
    assert ratio(pairs).text == ">2.5×"  # (27 + 34 + 34) / (12 + 13 + 13), not 34 / 12.67
    assert ratio([(b, a) for a, b in pairs]).text == "<0.4×"
    assert ratio(list(zip(reach(0), reach(0), strict=True))).text == "–"
    whole = ratio(list(zip(reach(30, 20), reach(10, 10), strict=True)))
    assert (whole.text, whole.mean, whole.numbers["n"]) == ("2.50× ± 0.71", 2.5, 2)


def test_seeds_that_did_not_get_there_are_named() -> None:
    assert rounds_text(reach(27, 0, 0)) == "27 (1 of 3 seeds, the others >34)"
    assert rounds_text(reach(0, 0)) == ">34"
    assert rounds_text(reach(10, 12)) == "11.0 ± 1.4"
    assert rounds_text(reach(10), pending=1) == "10 (1 of 2 seeds, 1 not yet)"
    assert rounds_text(reach(0), pending=2) == "– (0 of 3 seeds, 1 >34, 2 not yet)"


def test_values_of_a_comparison(tmp_path: Path) -> None:
    write_seeds(tmp_path, "fedavg", [[0.1, 0.5, 0.8, 0.96], [0.1, 0.5, 0.96, 0.9]])
    write_seeds(tmp_path, "feddc", [[0.5, 0.97, 0.9, 0.9], [0.5, 0.98, 0.92, 0.9]])
    setting = only(tmp_path)
    found = compare_table(setting)
    feddc = texts(found, "FedDC")
    assert feddc["best"] == "97.50 ± 0.71"
    assert feddc["last10"] == "82.12 ± 0.53"  # the means of 81.75 and 82.5
    assert feddc["rounds"] == "2.0 ± 0.0"
    assert feddc["speedup"] == "1.75× ± 0.35"  # 3.5 / 2; 2 and 1.5
    spent = [sum(r.bytes_up + r.bytes_down for r in run.records[:2]) for run in setting.lines[1].runs]
    assert dict(found.rows)["FedDC"][4].mean == sum(spent) / 2
    assert texts(found, "FedAvg")["speedup"] == "1×"
    assert texts(score_table(setting), "FedDC")["seeds"] == "2"
    assert texts(rounds_table(setting, 0.9), "FedDC")["seconds"] == "0.0200 ± 0.0000 s"


def test_bold_is_what_is_shown_to_be_ahead(tmp_path: Path) -> None:
    """SCAFFOLD moves twice the bytes of FedAvg: the fastest is not the cheapest."""
    write_seeds(tmp_path, "fedavg", [reaching(n, 30) for n in (14, 15, 16, 15)])
    write_seeds(tmp_path, "scaffold", [reaching(n, 30) for n in (12, 13, 13, 12)])
    assert bold(rounds_table(only(tmp_path), 0.9)) == {("SCAFFOLD", "rounds"), ("FedAvg", "bytes")}


def test_nothing_is_bold_beside_a_method_of_which_some_seeds_were_not_run(tmp_path: Path) -> None:
    write_seeds(tmp_path, "fedavg", [reaching(n, 30) for n in (14, 15, 16, 15)])
    write_seeds(tmp_path, "scaffold", [reaching(n, 30) for n in (12, 13, 13, 12)])
    runs = collect([tmp_path])
    absent = [not_run(replace(runs[0].config, method="fedprox", seed=seed)) for seed in range(4)]
    assert bold(rounds_table(arrange([*runs, *absent])[0], 0.9)) == {("SCAFFOLD", "rounds"), ("FedAvg", "bytes")}
    begun = replace(runs[0], config=absent[0].config)
    assert bold(rounds_table(arrange([*runs, begun, *absent[1:]])[0], 0.9)) == set()


def test_nothing_is_bold_with_one_seed_or_without_a_difference(tmp_path: Path) -> None:
    write_seeds(tmp_path / "one", "fedavg", [reaching(20, 30)])
    write_seeds(tmp_path / "one", "feddc", [reaching(5, 30)])
    assert bold(rounds_table(only(tmp_path / "one"), 0.9)) == set()
    write_seeds(tmp_path / "two", "fedavg", [[0.9, 0.910], [0.9, 0.935], [0.9, 0.920]])
    write_seeds(tmp_path / "two", "feddc", [[0.9, 0.930], [0.9, 0.920], [0.9, 0.9177]])
    assert bold(score_table(only(tmp_path / "two"))) == set()


def test_unfinished_runs_are_not_judged(tmp_path: Path) -> None:
    write_seeds(tmp_path, "feddc", [reaching(5, 30), reaching(6, 30)])
    for seed in (0, 1):
        write_run(tmp_path / f"a{seed}", method="fedavg", seed=seed, scores=[0.5] * 12, rounds=30, done=12)
    found = rounds_table(only(tmp_path), 0.9)
    assert texts(found, "FedAvg")["rounds"] == "not yet, at round 12"
    assert texts(found, "FedAvg")["bytes"] == "not yet"
    assert texts(found, "FedDC")["speedup"] == "not yet"
    assert texts(score_table(only(tmp_path)), "FedAvg")["best"] == "so far 50.00 ± 0.00"
    assert texts(score_table(only(tmp_path)), "FedAvg")["seeds"] == "0, 2 unfinished"
    assert bold(found) == set()


def test_a_run_that_stopped_early_bounds_only_what_it_ran(tmp_path: Path) -> None:
    write_run(tmp_path / "a", method="feddc", scores=[0.5, 0.91], stop_at=0.9)
    assert texts(rounds_table(only(tmp_path), 0.95), "FedDC")["rounds"] == ">2"


def test_a_diverged_run_never_gets_there(tmp_path: Path) -> None:
    write_run(tmp_path / "a", method="feddc", scores=[0.5, 0.2], status="diverged")
    config = tmp_path / "a" / "config.toml"
    config.write_text(config.read_text().replace("rounds = 2", "rounds = 50"))
    assert texts(rounds_table(only(tmp_path), 0.9), "FedDC")["rounds"] == ">50"
    assert texts(score_table(only(tmp_path)), "FedDC")["seeds"] == "0, 1 diverged"
    assert texts(score_table(only(tmp_path)), "FedDC")["best"] == "50.00 (1 diverged)"


def test_ablation_and_overview(tmp_path: Path) -> None:
    for split in ("iid", "dirichlet:0.6"):
        write_seeds(tmp_path / split, "fedavg", [[0.5, 0.6]], split=split)
        write_seeds(tmp_path / split, "feddc", [[0.7, 0.8]], split=split)
        write_seeds(tmp_path / split, "feddc:penalty=false", [[0.65, 0.6]], split=split)
    settings = arrange(collect([tmp_path]))
    ablation = ablation_table(settings[0])
    assert ablation is not None
    assert [row[1][0].text for row in ablation.rows] == ["FedAvg", "loss + correction", "loss + penalty + correction"]
    best, rounds = overview(settings)
    assert [column.heading for column in best.columns] == ["dirichlet:0.6", "iid"]
    assert [entry.text for entry in dict(best.rows)["FedDC penalty=false"]] == ["65.00", "65.00"]
    assert [entry.text for entry in dict(rounds.rows)["FedDC"]] == [">2", ">2"]


def test_a_row_has_the_same_settings_in_every_column(tmp_path: Path) -> None:
    """Where two α were run on one split, the other split's FedDC is in the row of its own α."""
    for split, alpha in (("iid", 0.1), ("iid", 1), ("dirichlet:0.1", 0.1)):
        write_run(tmp_path / f"{split}-{alpha}", method=f"feddc:alpha={alpha}", split=split, scores=[0.5])
    [best, *_] = overview(arrange(collect([tmp_path])))
    rows = {label: [entry.text for entry in entries] for label, entries in best.rows}
    assert rows == {"FedDC α=0.1": ["50.00", "50.00"], "FedDC α=1": ["", "50.00"]}  # as the folders are sorted


def test_differences_have_intervals(tmp_path: Path) -> None:
    write_seeds(tmp_path, "fedavg", [reaching(n, 30) for n in (14, 15, 16)])
    write_seeds(tmp_path, "feddc", [reaching(n, 30) for n in (7, 8, 10)])
    table = difference_table(only(tmp_path))
    assert table is not None
    found = texts(table, "FedDC")
    assert found["rounds-difference"] == "−6.7 (−9.2 to −4.2), p = 0.0074"  # and −6, −7, −7 vary by less than a round
    assert found["best-difference"] == "+0.00, no interval"
    assert bold(table) == {("FedDC", "rounds-difference")}
    assert difference_table(only(write_run(tmp_path / "x" / "a").parent)) is None


def test_what_was_spent_of_a_privacy_budget_is_a_column(tmp_path: Path) -> None:
    write_run(tmp_path / "plain", method="fedavg", rounds=3)
    assert "epsilon" not in texts(score_table(only(tmp_path)), "FedAvg")
    write_run(tmp_path / "private", method="feddc", rounds=3)
    file = tmp_path / "private" / "records.jsonl"
    lines = [json.loads(line) | {"epsilon": 0.5 * n} for n, line in enumerate(file.read_text().splitlines(), 1)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = score_table(only(tmp_path))
    assert texts(table, "FedDC")["epsilon"] == "1.50"
    assert texts(table, "FedAvg")["epsilon"] == ""


def test_runs_that_are_shorter_than_the_papers_say_so(tmp_path: Path) -> None:
    cell: dict[str, Any] = {"data": "mnist", "clients": 100, "split": "iid", "target": 0.98}
    write_run(tmp_path / "a", method="fedavg", rounds=600, **cell)
    assert score_table(only(tmp_path)).note == ""
    write_run(tmp_path / "b", method="feddc", rounds=599, **cell)
    assert score_table(only(tmp_path)).note == "The paper ran 600 rounds, these runs had 599."


def test_without_common_seeds_there_is_no_difference(tmp_path: Path) -> None:
    for seed, method in enumerate(("fedavg", "fedavg", "feddc", "feddc")):
        write_run(tmp_path / str(seed), method=method, seed=seed, scores=reaching(2, 3))
    write_run(tmp_path / "one", method="scaffold", scores=reaching(2, 3))
    table = difference_table(only(tmp_path))
    assert table is not None
    assert set(texts(table, "FedDC").values()) == {"no common seeds"}
    assert set(texts(table, "SCAFFOLD").values()) == {"one seed"}


def test_without_fedavg_the_others_differ_from_the_first(tmp_path: Path) -> None:
    for method in ("scaffold", "feddyn", "feddc"):
        write_seeds(tmp_path, method, [reaching(2, 3), reaching(3, 3)])
    table = difference_table(only(tmp_path))
    assert table is not None
    assert table.title == "Differences from SCAFFOLD"
    assert [label for label, _ in table.rows] == ["FedDyn", "FedDC"]


def test_a_method_that_was_stopped_before_it_got_there_is_not_ahead(tmp_path: Path) -> None:
    """Stopped at 90 % in round 9 to 11, it was shown to need fewer rounds to 95 %: '>9' in bold, p = 0.0033."""
    write_seeds(tmp_path, "fedavg", [[0.5] * (n - 1) + [0.96] for n in (20, 21, 22)], target=0.95)
    write_seeds(tmp_path, "feddc", [[0.5] * (n - 1) + [0.91] for n in (9, 10, 11)], target=0.95)
    [setting] = arrange([replace(run, config=replace(run.config, rounds=100)) for run in collect([tmp_path])])
    assert texts(rounds_table(setting, 0.95), "FedDC")["rounds"] == ">9"
    assert bold(rounds_table(setting, 0.95)) == set()
    differences = difference_table(setting)
    assert differences is not None
    assert texts(differences, "FedDC")["rounds-difference"] == "not judged"
    assert texts(differences, "FedDC")["bytes-difference"] == "not judged"
    assert bold(differences) == set()


def test_a_seed_that_fails_does_not_make_a_method_cheap(tmp_path: Path) -> None:
    """FedAvg moves half as much a round, and reached the target with one of three seeds: it was bold by bytes."""
    write_seeds(tmp_path, "fedavg", [reaching(n, 20) for n in (19, 99, 99)])
    write_seeds(tmp_path, "feddc", [reaching(n, 20) for n in (18, 19, 18)])
    assert bold(rounds_table(only(tmp_path), 0.9)) == set()
    differences = difference_table(only(tmp_path))
    assert differences is not None
    assert texts(differences, "FedDC")["bytes-difference"] == "not judged"


def test_of_two_methods_that_never_arrive_nothing_is_known(tmp_path: Path) -> None:
    """Equal bounds were a difference of 0 with an interval."""
    for method in ("fedavg", "fedprox"):
        write_seeds(tmp_path, method, [reaching(99, 20)] * 3)
    differences = difference_table(only(tmp_path))
    assert differences is not None
    assert texts(differences, "FedProx")["rounds-difference"] == "not judged"
    assert texts(differences, "FedProx")["bytes-difference"] == "not judged"


def test_nothing_is_cheaper_than_what_spent_less_so_far(tmp_path: Path) -> None:
    """FedAvg, at half the bytes a round, was left out because it never arrived, and FedDC was bold."""
    write_seeds(tmp_path, "fedavg", [reaching(99, 20)] * 3)
    write_seeds(tmp_path, "feddc", [reaching(n, 20) for n in (14, 15, 14)])
    assert bold(rounds_table(only(tmp_path), 0.9)) == {("FedDC", "rounds")}


def test_a_method_that_never_arrives_is_behind_where_its_bounds_are(tmp_path: Path) -> None:
    """In 60 rounds it moved more than FedDC needed."""
    write_seeds(tmp_path, "fedavg", [reaching(99, 60)] * 3)
    write_seeds(tmp_path, "feddc", [reaching(n, 60) for n in (14, 15, 14)])
    assert bold(rounds_table(only(tmp_path), 0.9)) == {("FedDC", "rounds"), ("FedDC", "bytes")}
    differences = difference_table(only(tmp_path))
    assert differences is not None
    assert texts(differences, "FedDC")["rounds-difference"].endswith(", a bound")
    assert texts(differences, "FedDC")["rounds-difference"].startswith("−46.7 (")  # 61 less 14.3
