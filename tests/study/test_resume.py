"""A run that was interrupted and continued is the run that never was: same records, same model, to the last bit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from feddc.algorithms import METHODS
from feddc.engine import Record
from feddc.errors import RunError, StorageError
from feddc.models.zoo import MODELS
from feddc.study.config import Config, resolve
from feddc.study.rundir import read_records
from feddc.study.runinfo import ready
from feddc.study.runner import Outcome, execute
from feddc.study.sources import Named

TINY: dict[str, Any] = {"clients": 8, "rounds": 6, "epochs": 1, "model": "fcn:8", "batch_size": 32, "checkpoint": "2"}
TINY["executor"] = "in-process"
SHARED = Named()


def normed(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes))


class CrashError(Exception):
    """Stands for whatever ends a process."""


def config(**values: Any) -> Config:
    return resolve(TINY | values)


def run(chosen: Config, out: Path, crash_after: int | None = None, said: list[str] | None = None) -> Outcome:
    """Run or go on; end abruptly once a round is recorded."""

    def on_record(record: Record) -> None:
        if record.round == crash_after:
            raise CrashError

    here, resume = ready(chosen, out)
    say = (said if said is not None else []).append
    return execute(chosen, SHARED.simulation(here), out, on_record, resume=resume, say=say)


def interrupted(chosen: Config, out: Path, *rounds: int) -> None:
    """Leave a run in ``out`` that was ended after each of these rounds."""
    for each in rounds:
        with pytest.raises(CrashError):
            run(chosen, out, each)


def result(out: Path) -> tuple[list[Record], bytes]:
    records = [replace(each, seconds=0.0) for each in read_records(out / "records.jsonl")]
    return records, (out / "model.safetensors").read_bytes()


@pytest.mark.parametrize("executor", ["in-process", "vectorised"])
@pytest.mark.parametrize("method", [*METHODS, "feddc:server=yogi", "fedavg:server_momentum=0.9", "feddc:form=paper"])
def test_every_method_goes_on_exactly(method: str, executor: str, tmp_path: Path) -> None:
    chosen = config(method=method, executor=executor, participation=0.5)
    run(chosen, tmp_path / "whole")
    interrupted(chosen, tmp_path / "parts", 1, 3, 5)
    run(chosen, tmp_path / "parts")
    assert result(tmp_path / "parts") == result(tmp_path / "whole")


def test_the_number_of_workers_may_change_on_the_way(tmp_path: Path) -> None:
    chosen = config(executor="workers", workers=1, rounds=4, checkpoint="1")
    run(replace(chosen, executor="in-process", workers=None), tmp_path / "whole")
    interrupted(chosen, tmp_path / "parts", 1)
    interrupted(replace(chosen, workers=2), tmp_path / "parts", 3)
    run(replace(chosen, executor="in-process", workers=None), tmp_path / "parts")
    assert result(tmp_path / "parts") == result(tmp_path / "whole")


def test_batch_norm_and_an_early_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers are part of the state; a target reached before the interruption is not passed."""
    monkeypatch.setitem(MODELS, "normed", normed)  # type: ignore[index]
    chosen = config(model="normed", split="iid", checkpoint="1")
    run(chosen, tmp_path / "whole")
    reached = read_records(tmp_path / "whole" / "records.jsonl")[3].accuracy
    interrupted(chosen, tmp_path / "parts", 2)
    run(chosen, tmp_path / "parts")
    assert result(tmp_path / "parts") == result(tmp_path / "whole")
    early = replace(chosen, stop_at=reached)
    run(early, tmp_path / "early")
    assert len(read_records(tmp_path / "early" / "records.jsonl")) <= 4


def test_a_finished_run_leaves_no_checkpoint_and_no_lock(tmp_path: Path) -> None:
    run(config(), tmp_path / "run")
    names = {each.name for each in (tmp_path / "run").iterdir()}
    assert names == {"run.json", "config.toml", "split.json", "records.jsonl", "model.safetensors", "summary.json"}
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["checkpoints"] == 2  # the one of the last round would be of no use
    assert summary["checkpoint_seconds"] > 0


def test_what_was_recorded_after_the_checkpoint_is_run_again(tmp_path: Path) -> None:
    interrupted(config(), tmp_path / "run", 3)
    assert len(read_records(tmp_path / "run" / "records.jsonl")) == 3
    with (tmp_path / "run" / "records.jsonl").open("a") as file:
        file.write('{"round": 4, "accur')  # half a line, as a full disk leaves it
    said: list[str] = []
    run(config(), tmp_path / "run", said=said)
    assert said == [f"{tmp_path / 'run'}: continuing after round 2"]
    assert [each.round for each in read_records(tmp_path / "run" / "records.jsonl")] == [1, 2, 3, 4, 5, 6]


def test_without_a_checkpoint_it_says_that_it_starts_again(tmp_path: Path) -> None:
    interrupted(config(checkpoint="off"), tmp_path / "run", 5)
    said: list[str] = []
    run(config(checkpoint="off"), tmp_path / "run", said=said)
    assert said == [f"{tmp_path / 'run'}: no checkpoint had been written, so it starts again from round 1"]


def test_a_changed_configuration_is_refused(tmp_path: Path) -> None:
    interrupted(config(), tmp_path / "run", 3)
    with pytest.raises(RunError, match=r"config\.toml was changed"):
        run(config(lr=0.2), tmp_path / "run")


def test_large_states_in_files_and_many_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feddc.engine.store.IN_MEMORY_BYTES", 0)
    monkeypatch.setattr("feddc.study.checkpoint.SEGMENT_BYTES", 1)  # a file for each client
    monkeypatch.setattr("feddc.study.checkpoint.MOST_SEGMENTS", 3)
    chosen = config(checkpoint="1", rounds=10, cohort_size=2)
    run(chosen, tmp_path / "whole")
    interrupted(chosen, tmp_path / "parts", 3, 8)
    files = list((tmp_path / "parts" / "checkpoint").glob("clients-*"))
    assert 0 < len(files) <= 2 * 8
    run(chosen, tmp_path / "parts")
    assert result(tmp_path / "parts") == result(tmp_path / "whole")


def test_the_disk_holds_twice_the_rows_at_most(tmp_path: Path) -> None:
    chosen = config(checkpoint="1", rounds=40, cohort_size=2)
    interrupted(chosen, tmp_path / "run", 39)
    row = 2 * 4 * (64 * 8 + 8 + 80 + 10)
    size = sum(each.stat().st_size for each in (tmp_path / "run" / "checkpoint").glob("clients-*"))
    overhead = 300 * len(list((tmp_path / "run" / "checkpoint").glob("clients-*")))
    assert size - overhead <= (2 * 8 + 2 * 2) * row  # and those that only the checkpoint before stands on


def test_a_failing_disk_ends_the_run_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(config(), tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr("feddc.study.rundir.RunDir.add", _no_space)
        with pytest.raises(StorageError, match=r"No space left on device .*: fix that, then `feddc resume"):
            run(config(), tmp_path / "run")
    run(config(), tmp_path / "run")
    assert result(tmp_path / "run") == result(tmp_path / "whole")


def _no_space(*_: Any) -> None:
    raise OSError(28, "No space left on device", "somewhere")
