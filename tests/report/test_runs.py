"""Runs are found, and what cannot be compared is refused in one sentence that names what differs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import feddc
from feddc.report.lines import arrange
from feddc.report.runs import collect
from tests.report.runs import write_comparison, write_run


def test_a_run_a_comparison_or_a_folder_of_them(tmp_path: Path) -> None:
    write_comparison(tmp_path / "all" / "one")
    write_comparison(tmp_path / "all" / "two", seed=1)
    assert len(collect([tmp_path / "all"])) == 6
    assert len(collect([tmp_path / "all" / "one"])) == 3
    [run] = collect([tmp_path / "all" / "one" / "feddc"])
    assert (run.status, run.config.method, len(run.records)) == ("finished", "feddc:alpha=0.1", 20)
    assert run.split is not None
    assert len(collect([tmp_path / "all" / "one", tmp_path / "all" / "one" / "feddc"])) == 3  # named twice, read once


def test_a_run_is_the_same_whatever_made_it(tmp_path: Path) -> None:
    [run] = collect([write_run(tmp_path / "a")])
    assert run == replace(run, about={"versions": {"commit": "other"}})
    assert run != replace(run, status="unfinished")


def test_lines_gather_seeds_and_say_what_varies(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_comparison(tmp_path / f"s{seed}", ("feddc:alpha=0.1", "feddc:alpha=0.01", "fedavg"), seed=seed)
    [setting] = arrange(collect([tmp_path]))
    assert [line.label for line in setting.lines] == ["FedAvg", "FedDC α=0.01", "FedDC α=0.1"]
    assert [len(line.runs) for line in setting.lines] == [2, 2, 2]
    write_run(tmp_path / "more" / "lr", method="fedavg", lr=0.5)
    [setting] = arrange(collect([tmp_path]))
    assert "FedAvg, lr 0.5" in [line.label for line in setting.lines]


def test_a_study_has_several_settings(tmp_path: Path) -> None:
    write_run(tmp_path / "a", split="iid")
    write_run(tmp_path / "b", split="dirichlet:0.1")
    assert [setting.title for setting in arrange(collect([tmp_path]))] == ["iid", "dirichlet:0.1"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": "synthetic"}, "data is 'digits' in the first and 'synthetic' in the second"),
        ({"split": "iid"}, "split is 'dirichlet:0.1' in the first and 'iid' in the second"),
        ({"clients": 7}, "clients is 6 in the first and 7 in the second"),
    ],
)
def test_runs_that_cannot_be_compared(change: dict[str, object], words: str, tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    write_run(tmp_path / "b", **change)  # type: ignore[arg-type]
    with pytest.raises(feddc.RunError, match=words):
        collect([tmp_path / "a", tmp_path / "b"])


def test_the_same_words_but_other_samples(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    other = write_run(tmp_path / "b", method="fedavg")
    (other / "split.json").write_text(json.dumps({"format": 1, "counts": [[1, 2]]}))
    with pytest.raises(feddc.RunError, match="their clients hold different samples"):
        collect([tmp_path])


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("records.jsonl", '{"round": 1, "gain": 2}\n', "another version of feddc: its records have 'gain'"),
        ("records.jsonl", '{"round": 1}\n', "is not a file of records: line 1"),
        ("records.jsonl", "no json\n", "is not a file of records: line 1"),
        ("records.jsonl", "[1]\n", "is not a file of records: line 1"),
        ("records.jsonl", "", "no run in .* has finished a round yet"),
        ("summary.json", '{"format": 99}', "another version of feddc: its format is 99, not 2"),
        ("summary.json", "{", "is not a JSON file"),
        ("split.json", "[]", "another version of feddc"),
        ("config.toml", "speed = 1", "unknown key 'speed'"),
    ],
)
def test_foreign_files(file: str, text: str, words: str, tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    (tmp_path / "a" / file).write_text(text)
    with pytest.raises(feddc.FedDCError, match=words):
        collect([tmp_path / "a"])


def test_a_line_that_is_still_being_written_is_not_an_error(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a", done=5)
    with (path / "records.jsonl").open("a") as file:
        file.write('{"round": 6, "accur')
    [run] = collect([path])
    assert (run.status, len(run.records)) == ("unfinished", 5)


def test_a_run_without_a_round_is_left_out(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    empty = write_run(tmp_path / "b", method="fedavg")
    (empty / "records.jsonl").write_text("")
    assert [run.config.method for run in collect([tmp_path])] == ["feddc:alpha=0.1"]


def test_an_alpha_that_is_no_number_comes_before_those_that_are(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    [run] = collect([tmp_path])
    runs = [
        replace(run, config=replace(run.config, method=f"own.py:Method:alpha={alpha}"))
        for alpha in ("2", "0.5", "auto")
    ]
    [setting] = arrange(runs)
    assert [line.options["alpha"] for line in setting.lines] == ["auto", "0.5", "2"]


def test_options_in_another_order_are_the_same_method(tmp_path: Path) -> None:
    """Both were 'FedDC', and the tables showed one of them."""
    write_run(tmp_path / "a", method="feddc:alpha=0.1:leak=0.01")
    write_run(tmp_path / "b", method="feddc:leak=0.01:alpha=0.1", seed=1)
    write_run(tmp_path / "c", method="feddc:leak=0.02:alpha=0.1", seed=1)
    [setting] = arrange(collect([tmp_path]))
    found = {line.label: [run.config.seed for run in line.runs] for line in setting.lines}
    assert found == {"FedDC leak=0.01": [0, 1], "FedDC leak=0.02": [1]}


def test_two_methods_of_one_name_are_told_apart_by_their_files(tmp_path: Path) -> None:
    [run] = collect([write_run(tmp_path / "a")])
    methods = ("feddc", "one.py:FedDC:alpha=1", "two.py:FedDC", "two.py:Other")
    [setting] = arrange([replace(run, config=replace(run.config, method=method)) for method in methods])
    assert {line.label for line in setting.lines} == {"feddc", "one.py:FedDC", "two.py:FedDC", "Other"}
