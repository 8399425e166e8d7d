"""Single clients in the report: what records hold of them, and nothing where they hold nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from feddc.report.about import facts, parameters
from feddc.report.export import export_csv
from feddc.report.lines import Setting, arrange
from feddc.report.page import body
from feddc.report.runs import collect
from feddc.report.tables import score_table
from feddc.report.tables.clients import scores_in, site_table, strips
from tests.report.runs import write_run


def with_records(path: Path, **more: Any) -> Setting:
    """A run whose last record has these fields besides."""
    run = write_run(path)
    *lines, last = (run / "records.jsonl").read_text().splitlines()
    (run / "records.jsonl").write_text("\n".join([*lines, json.dumps(json.loads(last) | more)]) + "\n")
    [setting] = arrange(collect([path]))
    return setting


def test_clients_that_hold_samples_out(tmp_path: Path) -> None:
    scores = {"scores": [0.9, None, 0.5, 0.712345678], "mean": 0.7, "std": 0.16, "worst": 0.5}
    own = {"scores": [0.95, None, 0.8, 0.8], "mean": 0.85, "std": 0.07, "worst": 0.8}
    setting = with_records(tmp_path / "a", clients=scores, personal=own)
    one, two = strips(setting)
    assert (one["label"], one["client"], one["score"]) == ("FedDC", [0, 2, 3], [90.0, 50.0, 71.2346])
    assert (one["mean"], one["worst"]) == (70.0, 50.0)
    assert (two["label"], two["mean"]) == ("FedDC, personal", 85.0)
    table = score_table(setting)
    shown = dict(zip([column.key for column in table.columns], table.rows[0][1], strict=True))
    assert (shown["clients_mean"].text, shown["clients_worst"].text) == ("70.00", "50.00")
    assert 'id="tab-clients"' in body([setting])
    list(export_csv([setting], tmp_path / "csv"))
    assert (tmp_path / "csv" / "clients.csv").read_text().splitlines()[:2] == ["method,client,score", "FedDC,0,90.0"]


def test_sites_of_a_real_federation(tmp_path: Path) -> None:
    sites = [
        {"client": 0, "samples": 120, "measures": {"samples": 20, "accuracy": 0.8}, "update": 1.5, "bytes_up": 10**6},
        {"client": 1, "samples": 80, "measures": {"samples": 10, "accuracy": 0.6}, "seconds": 2.0},
    ]
    setting = with_records(tmp_path / "a", sites=sites)
    [strip] = strips(setting)
    assert (strip["label"], strip["score"], strip["worst"]) == ("FedDC", [80.0, 60.0], 60.0)
    known = scores_in(setting.lines[0])
    assert known is not None
    assert known.scores == (0.8, 0.6)
    table = site_table(setting.lines[0])
    assert table is not None
    assert [column.heading for column in table.columns] == ["samples", "accuracy (%)", "update ‖Δᵢ‖", "time", "moved"]
    assert [entry.text for entry in dict(table.rows)["0"]] == ["120", "80.00", "1.5", "0 s", "1.00 MB"]


def test_runs_without_scores_of_clients(tmp_path: Path) -> None:
    setting = with_records(tmp_path / "a")
    assert strips(setting) == []
    assert site_table(setting.lines[0]) is None
    assert "clients_mean" not in [column.key for column in score_table(setting).columns]
    assert 'id="tab-clients"' not in body([setting])


def test_what_a_run_was_made_with(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    run = write_run(tmp_path / "a")
    tensors = {"w": torch.zeros(3, 4), "b": torch.zeros(4), "norm.running_mean": torch.zeros(4)}
    save_file(tensors, run / "model.safetensors")
    (run / "run.json").write_text(json.dumps({"format": 2, "arithmetic": "plain", "versions": {"torch": "9.9"}}))
    assert parameters(run / "model.safetensors") == 16
    found = facts(collect([run]))
    assert (found["parameters"], found["torch"], found["arithmetic"]) == ("16", "9.9", "plain")
    assert found["finished"].endswith("UTC")
    assert parameters(run / "config.toml") is None


def test_a_fact_in_which_runs_differ_lists_four_and_says_that_there_are_more(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / str(i)) for i in range(5)]
    for i, run in enumerate(runs):
        (run / "run.json").write_text(json.dumps({"format": 2, "arithmetic": "plain", "versions": {"torch": f"9.{i}"}}))
    assert facts(collect(runs[:4]))["torch"] == "9.0; 9.1; 9.2; 9.3"
    assert facts(collect(runs))["torch"] == "9.0; 9.1; 9.2; 9.3; …"


def test_what_a_site_costs_is_added_up_and_what_it_has_is_the_last(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", rounds=3)
    told = [
        {"client": 0, "samples": 10, "update": 2.0, "bytes_up": 1000, "bytes_down": 500, "seconds": 1.0},
        {"client": 0, "samples": 12, "bytes_up": 1000, "bytes_down": 0, "seconds": None},
        {"client": 0, "samples": 12, "update": 3.0, "drift": 0.5, "bytes_up": 1000, "bytes_down": 500, "seconds": 0.5},
    ]
    lines = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    texts = [json.dumps({**line, "sites": [site]}) + "\n" for line, site in zip(lines, told, strict=True)]
    (run / "records.jsonl").write_text("".join(texts))
    [setting] = arrange(collect([run]))
    table = site_table(setting.lines[0])
    assert table is not None
    [(name, row)] = table.rows
    shown = {column.key: entry.numbers["mean"] for column, entry in zip(table.columns, row, strict=True)}
    assert (name, shown) == ("0", {"samples": 12, "update": 3.0, "drift": 0.5, "seconds": 1.5, "moved": 4000})


def test_runs_that_finished_at_several_times_say_from_when_to_when(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / str(i), seed=i) for i in range(3)]
    for run, seconds in zip(runs, (86400, 120, 120), strict=True):
        os.utime(run / "summary.json", (seconds, seconds))
    assert facts(collect(runs[1:]))["finished"] == "1970-01-01 00:02 UTC"
    assert facts(collect(runs))["finished"] == "1970-01-01 00:02 UTC to 1970-01-02 00:00 UTC"
