"""The command line as a user meets it: what it prints, writes, refuses, and ends with."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from feddc.cli import main
from feddc.cli.options import as_typed
from feddc.study.config import resolve, result_digest

SMALL = ["--rounds", "2", "--epochs", "1", "--clients", "6"]


def feddc(*args: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    return int(ended.value.code or 0)


def test_run_writes_a_whole_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert feddc("run", *SMALL, "--method", "feddc", "--alpha", "0.2", "--out", str(out)) == 0
    assert sorted(p.name for p in out.iterdir()) == [
        "config.toml",
        "model.safetensors",
        "records.jsonl",
        "run.json",
        "split.json",
        "summary.json",
    ]
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert [r["round"] for r in records] == [1, 2]
    assert set(records[0]["metrics"]) == {"accuracy", "loss"}
    assert set(records[0]) >= {"participants", "bytes_up", "bytes_down", "seconds"}
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "finished"
    assert summary["best_accuracy"] == max(r["metrics"]["accuracy"] for r in records)
    config = tomllib.loads((out / "config.toml").read_text())
    assert config["method"] == "feddc:alpha=0.2"
    assert config["split"] == "dirichlet:0.1"
    assert sum(t.numel() for t in load_file(out / "model.safetensors").values()) == 64 * 100 + 100 + 1010
    printed = capsys.readouterr().out
    assert "feddc" in printed
    assert str(out) in printed


def test_a_stored_configuration_runs_the_same_again(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    options = ["--batch-size", "none", "--clip-norm", "none", "--cohort-size", "2", "--seed", "7", "--quiet"]
    assert feddc("run", *SMALL, *options, "--out", str(one)) == 0
    assert feddc("run", "--config", str(one / "config.toml"), "--out", str(two), "--quiet") == 0
    assert (one / "config.toml").read_text() == (two / "config.toml").read_text()
    first, second = (load_file(out / "model.safetensors") for out in (one, two))
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_what_was_turned_off_stays_off_in_the_stored_configuration(tmp_path: Path) -> None:
    """Digits has a usual participation and split, which must not come back."""
    one, two = tmp_path / "one", tmp_path / "two"
    assert feddc("run", *SMALL, "--participation", "none", "--out", str(one), "--quiet") == 0
    assert feddc("run", "--config", str(one / "config.toml"), "--out", str(two), "--quiet") == 0
    first, second = ((out / "records.jsonl").read_text().splitlines() for out in (one, two))
    everyone = json.loads(first[0])["participants"]
    assert everyone == json.loads(second[0])["participants"]
    assert len(everyone) == tomllib.loads((two / "config.toml").read_text())["clients"]


def test_the_names_of_stored_results_stay() -> None:
    """A run that was begun, or a cell that was stored, by an earlier version is found again."""
    chosen = resolve({"data": "digits", "cohort_size": 5, "method": "fedavg"})
    assert result_digest(chosen).startswith("f6cfb2c8")


def test_compare_ends_in_a_table_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "cmp"
    assert feddc("compare", *SMALL, "--methods", "fedavg, feddc:alpha=0.1,feddc:alpha=0.5", "--out", str(out)) == 0
    printed = capsys.readouterr().out
    assert "speed-up" in printed
    assert ">2" in printed  # two rounds do not reach the target
    assert (out / "convergence.png").read_bytes().startswith(b"\x89PNG")
    runs = sorted(p.name for p in out.iterdir() if p.is_dir())
    assert runs == ["fedavg", "feddc-alpha=0.1", "feddc-alpha=0.5"]
    cohorts = [
        [json.loads(line)["participants"] for line in (out / run / "records.jsonl").read_text().splitlines()]
        for run in runs
    ]
    assert cohorts[0] == cohorts[1] == cohorts[2]


def test_options_override_the_file(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('methods = ["fedavg", "fedprox:mu=0.1"]\nrounds = 5\nclients = 6\nepochs = 1\nbatch-size = 20\n')
    assert feddc("compare", "--config", str(file), "--rounds", "1", "--out", str(tmp_path / "o"), "--quiet") == 0
    config = tomllib.loads((tmp_path / "o" / "fedprox" / "config.toml").read_text())
    assert (config["rounds"], config["batch_size"], config["method"]) == (1, 20, "fedprox:mu=0.1")


def test_a_key_written_in_two_ways_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.toml"
    file.write_text("batch-size = 20\nbatch_size = 30\n")
    assert feddc("run", "--config", str(file), "--out", str(tmp_path / "o")) == 2
    assert "batch_size is given twice (batch-size and batch_size)" in capsys.readouterr().err


def test_quiet_prints_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert feddc("run", *SMALL, "--quiet", "--out", str(tmp_path / "q")) == 0
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_synthetic_runs(tmp_path: Path) -> None:
    data = "synthetic:gamma1=1:shared_solution=false"
    assert feddc("run", "--data", data, "--rounds", "1", "--quiet", "--out", str(tmp_path / "s")) == 0


def test_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert feddc("list") == 0
    printed = capsys.readouterr().out
    for name in (
        "feddc",
        "scaffold",
        "fedadagrad",
        "yogi",
        "digits",
        "synthetic",
        "pathological",
        "resnet18",
        "alpha=0.1",
    ):
        assert name in printed
    assert feddc("list", "splits") == 0
    assert "resnet18" not in capsys.readouterr().out


BAD = [
    (["run", "--method", "feddcc"], "unknown method 'feddcc': did you mean 'feddc'?"),
    (["compare", "--methods", "fedavg,fedproxx"], "did you mean 'fedprox'?"),
    (["compare", "--methods", "fedavg,fedavg"], "listed twice"),
    (["compare", "--methods", ""], "unknown method ''"),
    (["run", "--ronds", "3"], "--rounds"),
    (["rum"], "unknown command 'rum': did you mean 'run'?"),
    (["list", "method"], "did you mean 'methods'?"),
    (["run", "--data", "digit"], "did you mean 'digits'?"),
    (["run", "--data", "digits:size=3"], "has no options"),
    (["run", "--split", "dirichlet:0"], "above 0"),
    (["run", "--split", "diriclet:0.1"], "did you mean 'dirichlet'?"),
    (["run", "--model", "fcm"], "did you mean 'fcn'?"),
    (["run", "--model", "cnn"], "model 'cnn' needs images"),
    (["run", "--alpha", "-1"], "method 'feddc': alpha must be at least 0, not -1"),
    (["run", "--alpha", "nan"], "method 'feddc': alpha must be at least 0"),
    (["run", "--method", "fedavg", "--alpha", "1"], "--alpha has no effect on fedavg"),
    (["run", "--method", "feddc:alpah=1"], "did you mean 'alpha'?"),
    (["run", "--mu", "x", "--method", "fedprox"], "--mu must be a number, not 'x'"),
    (["run", "--clients", "0"], "--clients must be a whole number, 1 or more, not 0"),
    (["run", "--clients", "99999"], "99999 clients cannot share 1437 samples"),
    (["run", "--clients", "2.5"], "--clients must be a whole number, not '2.5'"),
    (["run", "--participation", "0"], "--participation must be above 0"),
    (["run", "--participation", "1.01"], "at most 1"),
    (["run", "--participation", "0.5", "--cohort-size", "3"], "only one of --participation and --cohort-size"),
    (["run", "--cohort-size", "21"], "only 20 clients"),
    (["run", "--rounds", "-3"], "--rounds must be"),
    (["run", "--lr", "0"], "--lr must be above 0"),
    (["run", "--lr", "inf"], "--lr must be above 0"),
    (["run", "--batch-size", "0"], "--batch-size must be"),
    (["run", "--target", "95"], "--target must be above 0 and at most 1"),
    (["run", "--seed", "-1"], "--seed must be"),
    (["run", "--personal"], "--personal needs samples"),
    (["run", "--ray-address", "x"], "--ray-address x needs --executor ray, not 'auto'"),
    (["run", "--delta", "0.1"], "--delta has no effect without --epsilon or --privacy"),
    (["run", "--method", "scaffold:lr=x"], "method 'scaffold': lr must be one of first, current, not 'x'"),
    (["run", "--config", "missing.toml"], "cannot read missing.toml"),
    (["run", "--data", "synthetic", "--split", "iid"], "made client by client"),
    (["run", "--split", ""], "split must not be empty"),
    (["run", "--method", "feddc:alpha=0.1", "--alpha", "0.5"], "--alpha has no effect on feddc:alpha=0.1"),
    (["run", "--method", "feddc:alpha=0.1:alpha=0.2"], "option 'alpha' is given twice"),
    (["run", "extra"], "extra"),
]


@pytest.mark.parametrize(
    ("sentence", "typed"),
    [
        ("batch_size must be a whole number", "--batch-size must be a whole number"),
        ("weight_decay must be …: a smaller lr_decay", "--weight-decay must be …: a smaller --lr-decay"),
        ("personal=True does not go with nesterov=False", "--personal does not go with --no-nesterov"),
        ("in run/batch_size=3.toml: lr must be a number", "in run/batch_size=3.toml: lr must be a number"),
        ("method 'feddc': alpha must be …", "method 'feddc': alpha must be …"),
        ("write feddc:steps=own, or data 'x'", "write feddc:steps=own, or data 'x'"),
        ("model 'cnn' needs images", "model 'cnn' needs images"),
        ("--over takes KEY=A,B,… such as lr=0.1, not 'seed='", "--over takes KEY=A,B,… such as lr=0.1, not 'seed='"),
    ],
)
def test_options_are_named_as_they_are_typed(sentence: str, typed: str) -> None:
    assert as_typed(sentence) == typed


@pytest.mark.parametrize(("args", "words"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_input_is_one_sentence_and_exit_code_2(
    args: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert feddc(*args) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.startswith("feddc: ")
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []  # nothing was written


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ronds = 3", "unknown key 'ronds': did you mean 'rounds'?"),
        ("rounds = 'many'", "rounds must be a whole number"),
        ("rounds = true", "rounds must be a whole number"),
        ("lr = [1]", "lr must be a number"),
        ("[table]\nx = 1", "unknown key 'table'"),
        ("[lr]\nx = 1", "lr must be a value"),
        ("rounds = ", "is not a TOML file"),
        ("methods = [1]", "methods must be a list of names"),
        ("alpha = 'big'", "alpha must be a number"),
    ],
)
def test_bad_configuration_files(text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.toml"
    file.write_text(text)
    assert feddc("compare", "--config", str(file), "--out", str(tmp_path / "o")) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_directory_that_holds_something_is_left_alone(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert feddc("run", *SMALL, "--quiet", "--out", str(out)) == 0
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    assert feddc(command, *SMALL, "--out", str(out)) == 2
    assert "already holds a run" in capsys.readouterr().err
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before
    (tmp_path / "file").write_text("mine")
    assert feddc(command, *SMALL, "--out", str(tmp_path / "file")) == 2
    assert (tmp_path / "file").read_text() == "mine"


def test_a_diverging_run_says_so_and_keeps_its_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "wild"
    assert feddc("run", *SMALL, "--lr", "1e30", "--clip-norm", "none", "--out", str(out)) == 1
    error = capsys.readouterr().err
    assert "diverged: client" in error
    assert "round 1" in error
    assert json.loads((out / "summary.json").read_text())["status"] == "diverged"
    assert not (out / "model.safetensors").exists()


def test_a_comparison_survives_a_method_that_diverges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wild = "fedavg,fedavg:server_lr=1e30"
    assert feddc("compare", *SMALL, "--methods", wild, "--out", str(tmp_path / "c")) == 0
    assert "diverged" in capsys.readouterr().out


def test_help_is_quick() -> None:
    script = "import sys; from feddc.cli import main\ntry: main(['--help'])\nfinally: print('torch' in sys.modules)"
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")
    assert time.perf_counter() - began < 5  # generous: the claim that holds it up is that torch is not imported


def test_the_module_runs_as_a_command() -> None:
    done = subprocess.run([sys.executable, "-m", "feddc", "--version"], capture_output=True, text=True, check=True)
    assert metadata.version("feddc") in done.stdout


def test_json_is_one_line_a_round_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert feddc("compare", *SMALL, "--methods", "fedavg,feddc", "--json", "--out", str(tmp_path / "c")) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["run"], line["round"]) for line in lines] == [
        ("fedavg", 1),
        ("fedavg", 2),
        ("feddc", 1),
        ("feddc", 2),
    ]
    assert lines[-1]["drift"]["gap"]


def test_without_diagnostics(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert feddc("run", *SMALL, "--no-diagnostics", "--quiet", "--out", str(out)) == 0
    assert tomllib.loads((out / "config.toml").read_text())["diagnostics"] is False
    assert json.loads((out / "records.jsonl").read_text().splitlines()[0])["drift"] is None


def test_tensorboard_events_lie_in_the_run(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra 'tensorboard' is not installed")
    assert feddc("run", *SMALL, "--tensorboard", "--quiet", "--out", str(tmp_path / "r")) == 0
    assert len(list((tmp_path / "r" / "tensorboard").glob("events.*"))) == 1


def test_lines_and_a_terminal_show_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert feddc("run", *SMALL, "--out", str(tmp_path / "r")) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "round 2/2" in line)
    for word in ("accuracy", "best", "loss", "rounds/s", "left"):
        assert word in line
