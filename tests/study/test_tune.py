"""`feddc tune`: chosen on validation data, stopped early, continued, and never on the test set."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import feddc
from feddc.cli import main
from feddc.study.config import Config, resolve
from feddc.study.sources import Named
from feddc.study.tune import Range, Search, value_of

TINY = {"clients": 4, "rounds": 5, "epochs": 1, "model": "linear", "split": "iid", "executor": "in-process"}


def configure(setting: Mapping[str, Any]) -> Config:
    texts = {key: str(value) for key, value in setting.items()}
    return resolve({"method": "fedavg", "validation": 0.2, **TINY, **texts})


def test_ranges() -> None:
    assert Range.parse("alpha=1e-3..1") == Range("alpha", 1e-3, 1.0)
    assert Range.parse("alpha=1e-3..1").log
    assert Range.parse("local-steps=1..5") == Range("local_steps", 1, 5, whole=True)
    assert not Range.parse("epochs=1..5").log
    assert Range.parse("batch-size=10,50").choices == ("10", "50")
    for text, sentence in {
        "alpha": "--over takes KEY=LOW..HIGH",
        "alpha=1..x": "--over alpha needs two numbers with .. between, not '1..x'",
        "alpha=3..1": "--over alpha needs a smaller and a larger number, not '3..1'",
    }.items():
        with pytest.raises(feddc.ConfigError, match=re.escape(sentence)):
            Range.parse(text)


def test_the_value_is_that_of_the_validation_data(tmp_path: Path) -> None:
    search = Search([Range("lr", 1e-6, 0.5)], configure, tmp_path, seeds=(0, 1))
    found = search.run(Named(), 3)
    assert (found.finished, found.pruned) == (3, 0)
    values = {setting["lr"]: value for setting, value in search.table()}
    assert found.value == max(value for value in values.values() if value is not None)
    # The best setting again, by hand: the last tenth of five rounds is the last one.
    config = configure({"lr": float(f"{found.best['lr']:.4g}")})
    runs = []
    for seed in (0, 1):
        simulation = Named().simulation(dataclasses.replace(config, seed=seed))
        records = list(simulation.run())
        assert records[-1].validation is not None
        assert records[-1].validation["accuracy"] != records[-1].accuracy
        assert value_of(records) == records[-1].validation["accuracy"]
        runs.append(value_of(records))
    assert found.value == pytest.approx(sum(runs) / 2)


def test_a_search_is_continued_and_not_repeated(tmp_path: Path) -> None:
    search = Search([Range("lr", 1e-3, 0.5)], configure, tmp_path)
    search.run(Named(), 2)
    first = search.table()
    told: list[int] = []
    search.run(Named(), 3, lambda done, _: told.append(done))
    assert told == [3]
    assert search.table()[:2] == first
    assert len({str(setting) for setting, _ in search.table()}) == 3  # and not the first one again
    search.run(Named(), 3, lambda done, _: told.append(done))
    assert told == [3]
    with pytest.raises(feddc.ConfigError, match="holds a search over other ranges"):
        Search([Range("lr", 1e-2, 0.5)], configure, tmp_path).run(Named(), 4)


def test_what_was_interrupted_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search([Range("lr", 1e-3, 0.5)], configure, tmp_path)

    def stopped(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("feddc.study.study.Study.run_cell", stopped)
        with pytest.raises(KeyboardInterrupt):
            search.run(Named(), 1)
    optuna = pytest.importorskip("optuna")
    [tried] = search._study(optuna).trials
    search.run(Named(), 1)
    assert [setting for setting, _ in search.table()] == [tried.params]


def test_the_command_ends_with_one_for_the_test_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = [word for key, value in TINY.items() for word in (f"--{key}", str(value))]
    with pytest.raises(SystemExit) as ended:
        main(["tune", "--method", "feddc", "--over", "alpha=1e-3..1", "--trials", "2", "--out", "t", *options])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert "best of 2 finished and 0 stopped early: alpha=" in out
    assert (tmp_path / "t" / "tune.png").stat().st_size > 1000
    [command] = re.findall(r"on the test set: (feddc run .*)", out)
    assert "--validation" not in command
    with pytest.raises(SystemExit) as ended:
        main([*command.split()[1:], "--out", "winner", "--quiet"])
    assert ended.value.code == 0
    chosen = feddc.study.config.from_toml(tmp_path / "winner" / "config.toml")  # type: ignore[attr-defined]
    assert chosen.validation == 0
    assert f"--alpha {chosen.method.partition('alpha=')[2]}" in command


def test_two_processes_try_as_many_as_were_asked_for_and_ctrl_c_keeps_them(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    options = [word for key, value in (TINY | {"rounds": 300}).items() for word in (f"--{key}", str(value))]
    search = ["tune", "--over", "lr=1e-3..0.5", "--trials", "5", "--jobs", "2", "--out", str(tmp_path / "t")]
    command = [sys.executable, "-m", "feddc", *search, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0)
    assert process.stdout is not None
    next(line for line in process.stdout if "of 5" in line)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert said.splitlines()[-1] == (
        "feddc: interrupted before all 5 settings were tried: repeat the command to continue"
    )
    assert "resume" not in said
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    ended = re.search(r"best of (\d+) finished and (\d+) stopped early", again.stdout)
    assert ended is not None
    assert sum(map(int, ended.groups())) == 5
