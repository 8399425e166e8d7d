"""A run on Flower is a run directory that report and watch read, with the best and the last model in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import feddc
from feddc.cli import main
from feddc.models import FlatModel
from feddc.report.runs import collect, read
from feddc.storage import tensors
from tests.flower import task
from tests.flower.test_agreement import federated
from tests.flower.test_parity import coordinator


def test_report_reads_it_while_it_is_under_way_and_when_it_has_ended(tmp_path: Path) -> None:
    run = federated(tmp_path)
    folder = tmp_path / "server" / "feddc" / "server"
    rounds = run.run()
    first = next(rounds)
    going = read(folder)
    assert going.status == "unfinished"
    assert going.records == (first,)
    records = [first, *rounds]
    [ended] = collect([tmp_path / "server"])
    assert ended.status == "finished"
    assert ended.records == tuple(records)
    assert ended.config.method.startswith("feddc:alpha=0.1")
    assert (ended.config.data, ended.config.clients, ended.config.rounds) == ("feddc", 5, 3)
    assert ended.config.lr == 0.05
    assert [site.client for site in ended.records[-1].sites] == [0, 1, 2, 3, 4]


def test_a_finished_run_that_gets_more_rounds_is_under_way_again(tmp_path: Path) -> None:
    list(coordinator(feddc.FedDC(), tmp_path, rounds=1).run())
    folder = tmp_path / "server" / "feddc" / "server"
    assert json.loads((folder / "summary.json").read_text())["status"] == "finished"
    rounds = coordinator(feddc.FedDC(), tmp_path, rounds=3).run()
    next(rounds)
    assert not (folder / "summary.json").exists()
    assert read(folder).config.rounds == 3
    list(rounds)
    assert (folder / "summary.json").exists()


def test_the_best_and_the_last_model_are_on_disk_during_the_run(tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path)
    folder, seen, best = tmp_path / "server" / "feddc" / "server", {}, 0
    for record in run.run():
        model, about = tensors.read(folder / "model.safetensors")
        assert about["round"] == str(record.round)
        module = task.make_model()
        module.load_state_dict(model)
        torch.testing.assert_close(FlatModel(module).params, run.progress.server.model)
        seen[record.round] = record.value
        best = max(seen, key=lambda number: (seen[number], number))
        assert tensors.read(folder / "best.safetensors")[1]["round"] == str(best)
    assert len(seen) == 4


def test_the_page_is_written_from_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    list(federated(tmp_path).run())
    with pytest.raises(SystemExit) as end:
        main(["report", str(tmp_path / "server"), "--output", str(tmp_path / "report.html")])
    assert end.value.code == 0, capsys.readouterr().err
    assert "FedDC" in (tmp_path / "report.html").read_text()
