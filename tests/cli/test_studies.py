"""`feddc reproduce` and `feddc sweep` as a user meets them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.test_cli import feddc

SMALL = [
    "accuracy",
    "--data",
    "synthetic",
    "--split",
    "0-0,1-0",
    "--participation",
    "0.15",
    "--methods",
    "fedavg,feddc",
]


def test_reproduce_lists_the_studies(capsys: pytest.CaptureFixture[str]) -> None:
    assert feddc("reproduce") == 0
    printed = capsys.readouterr().out
    for name in ("rounds", "accuracy", "curves", "alpha", "ablation", "adaptive", "tiny-imagenet"):
        assert name in printed


def test_cells_are_listed_without_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert feddc("reproduce", *SMALL, "--seeds", "0,1", "--list", "--out", str(tmp_path / "o")) == 0
    assert len(capsys.readouterr().out.splitlines()) == 8
    assert not (tmp_path / "o").exists()


def test_a_finished_cell_is_never_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, report = tmp_path / "cells", tmp_path / "pages"
    one = ["reproduce", *SMALL, "--rounds", "2", "--out", str(out)]
    assert feddc(*one, "--methods", "feddc") == 0
    assert "2 of 2 cells to run: about" in capsys.readouterr().out
    before = {file: file.stat().st_mtime_ns for file in out.glob("*/*")}
    assert len(before) == 2 * 6
    leftover = next(out.glob("*-feddc*")).with_suffix(".part")  # as an interrupted run leaves it
    leftover.mkdir()
    assert feddc(*one, "--seeds", "0", "--report", str(report)) == 0
    printed = capsys.readouterr().out
    assert "2 of 4 cells to run" in printed
    assert all(file.stat().st_mtime_ns == when for file, when in before.items())
    assert "Best accuracy (%): synthetic, natural split, 20 clients, 15 % a round (measured | paper)" in printed
    assert "| 99.57" in printed
    page = (report / "accuracy-synthetic.md").read_text()
    assert "shared_solution=true" in page
    assert len(list(report.glob("*.png"))) == 2


def test_pages_are_made_again_from_the_stored_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "pages"
    one = ["reproduce", *SMALL, "--rounds", "1", "--report", str(report), "--quiet"]
    assert feddc(*one, "--out", str(tmp_path / "cells")) == 0
    page = (report / "accuracy-synthetic.md").read_text()
    assert feddc(*one, "--out", str(tmp_path / "nowhere"), "--stored") == 0
    again = (report / "accuracy-synthetic.md").read_text()
    assert page.splitlines()[3:] == again.splitlines()[3:]  # the command on the third line differs
    assert capsys.readouterr().out == ""


def test_the_page_of_a_run_is_the_page_of_what_was_stored(tmp_path: Path) -> None:
    one = ["reproduce", "beyond", "--data", "digits", "--methods", "fedavg,feddc", "--rounds", "2", "--quiet"]
    one += ["--report", str(tmp_path), "--out", str(tmp_path / "cells")]
    assert feddc(*one) == 0
    page = (tmp_path / "beyond-digits.md").read_text()
    shutil.rmtree(tmp_path / "cells")  # which knows of seconds, and of more digits
    assert feddc(*one, "--stored") == 0
    assert (tmp_path / "beyond-digits.md").read_text() == page


@pytest.mark.filterwarnings("ignore:this processor has no bfloat16 products")
def test_a_method_is_shown_in_the_precisions_that_it_was_run_in(tmp_path: Path) -> None:
    """The page of FedAvg in float32 beside FedDC in bf16, with SCAFFOLD run in neither."""
    one = ["reproduce", "accuracy", "--data", "synthetic", "--participation", "0.15", "--rounds", "1", "--quiet"]
    one += ["--report", str(tmp_path), "--out", str(tmp_path / "cells")]
    assert feddc(*one, "--split", "0-0,1-0", "--methods", "feddc", "--precision", "bf16") == 0
    assert feddc(*one, "--split", "0-0", "--methods", "fedavg", "--precision", "float32") == 0
    both = ["--split", "0-0,1-0", "--methods", "fedavg,scaffold,feddc", "--precision", "float32,bf16"]
    assert feddc(*one, *both, "--stored") == 0
    page = (tmp_path / "accuracy-synthetic.md").read_text()
    table = page.split("\n\n")[3].splitlines()
    assert [row.split(" | ")[0] for row in table[2:]] == [
        "| FedAvg, precision float32",
        "| SCAFFOLD, precision float32",
        "| FedDC, precision bf16",
    ]
    assert [row.count("not run") for row in table[2:]] == [1, 2, 0]


def test_cells_of_several_precisions_are_named_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert feddc("reproduce", *SMALL, "--precision", "float32,bf16", "--list", "--out", str(tmp_path)) == 0
    rows = {line.split(", seed")[0].split(", 15 %, ")[1] for line in capsys.readouterr().out.splitlines()}
    assert rows == {
        f"{split}, {method}, {each}"
        for split in ("0-0", "1-0")
        for method in ("fedavg", "feddc")
        for each in ("float32", "bf16")
    }


def test_sweep_runs_every_combination_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "sweep"
    options = ["--rounds", "1", "--epochs", "1", "--clients", "5", "--out", str(out)]
    assert feddc("sweep", "--over", "alpha=0.01,0.1", "--over", "seed=0,1", *options) == 0
    printed = capsys.readouterr().out
    assert "4 of 4 cells to run" in printed
    assert "alpha=0.01" in printed
    assert "±" in printed
    assert feddc("sweep", "--over", "method=fedavg,feddc:alpha=0.1", "--over", "seed=0,1", *options) == 0
    assert "2 of 4 cells to run" in capsys.readouterr().out  # FedDC with that α is there already


def test_a_cell_that_diverges_in_its_first_round_is_shown_and_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = ["sweep", "--over", "lr=0.1,1e30", "--rounds", "2", "--clients", "5", "--out", str(tmp_path)]
    assert feddc(*one) == 0
    assert "2 of 2 cells to run" in capsys.readouterr().out
    assert feddc(*one) == 0
    printed = capsys.readouterr().out
    assert "to run" not in printed
    assert [line.split()[-1] for line in printed.splitlines() if "lr 1e+30" in line] == ["diverged", ">2"]


def test_a_cell_that_diverged_in_its_first_round_is_stored(tmp_path: Path, ended: Path) -> None:
    out = as_far_as(ended, tmp_path / "cells", 0, "diverged", 0.5)
    summary = tmp_path / "cells" / ended.name / "summary.json"
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"status": "diverged", "error": "it diverged"}))
    assert feddc(*ONE, "--quiet", "--report", str(tmp_path), "--out", out) == 0
    [found] = json.loads((tmp_path / "accuracy-synthetic.json").read_text()).values()
    assert (found["status"], found["accuracy"]) == ("diverged", [])
    shutil.rmtree(out)
    assert feddc(*ONE, "--quiet", "--report", str(tmp_path), "--out", out) == 0
    assert not Path(out).exists()
    assert "| FedDC | diverged" in (tmp_path / "accuracy-synthetic.md").read_text()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["reproduce", "round"], "did you mean 'rounds'"),
        (["reproduce", "rounds", "--data", "minst"], "did you mean 'mnist'"),
        (["reproduce", "rounds", "--seeds", "a"], "--seeds must be whole numbers"),
        (["reproduce", "rounds", "--seeds", ""], "--seeds must be whole numbers with commas between, not ''"),
        (["reproduce", "rounds", "--methods", ""], "--methods must be names with commas between, not ''"),
        (
            ["reproduce", "rounds", "--methods", "fedavg,,feddc"],
            "--methods must be names with commas between, not 'fed",
        ),
        (["reproduce", "rounds", "--data", ""], "--data must be names with commas between, not ''"),
        (["reproduce", "rounds", "--split", ""], "--split must be names with commas between, not ''"),
        (["reproduce", "rounds", "--clients", " "], "--clients must be names with commas between, not ' '"),
        (["reproduce", "rounds", "--participation", ""], "--participation must be names with commas between, not ''"),
        (["reproduce", "rounds", "--precision", ""], "--precision must be names with commas between, not ''"),
        (["reproduce", "rounds", "--stored"], "--stored needs --report"),
        (["reproduce", "rounds", "--stored", "--report", "nope", "--out", "nope"], "have no result of these cells"),
        (["reproduce", "rounds", "--weights", "x.pt"], "goes with the study tiny-imagenet"),
        (["reproduce", "rounds", "--rounds", "0"], "rounds"),
        (["reproduce", "tiny-imagenet", "--data-dir", "."], "feddc data fetch tiny-imagenet"),
        (["sweep", "--over", "alpha"], "--over takes KEY=A,B,… such as alpha=0.01,0.1, not 'alpha'"),
        (["sweep", "--over", "seed="], "--over takes KEY=A,B,… such as alpha=0.01,0.1, not 'seed='"),
        (["sweep", "--over", "alpah=1"], "did you mean 'alpha'"),
        (["sweep", "--over", "alpha=1", "--over", "alpha=2"], "twice"),
        (["sweep", "--over", "alpha=1,-1"], "alpha must be at least 0"),
        (["sweep", "--over", "target=0.5,0.9"], "two of the runs are the same one"),
        (["sweep", "--over", "lr=0.1,nan"], "lr must be above 0"),
        (["reproduce", "rounds", "--data", "mnist", "--seeds", "0,0"], "two of the runs are the same one"),
        (["sweep"], "--over"),
    ],
)
def test_bad_input(
    args: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert feddc(*args) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_comparison_over_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = ["--rounds", "2", "--clients", "3", "--model", "linear", "--split", "iid", "--out", str(tmp_path / "c")]
    assert feddc("compare", "--methods", "fedavg,feddc", "--seeds", "3,4", *tiny) == 0
    names = {"fedavg-s3", "fedavg-s4", "feddc-s3", "feddc-s4"}
    assert names <= {each.name for each in (tmp_path / "c").iterdir()}
    assert "seed = 4\n" in (tmp_path / "c" / "feddc-s4" / "config.toml").read_text()
    assert feddc("compare", "--seeds", "1,x", *tiny) == 2
    assert "--seeds must be whole numbers with commas between, not '1,x'" in capsys.readouterr().err


def test_an_interrupted_cell_is_stored_as_such_and_continued(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, report = tmp_path / "cells", tmp_path / "pages"
    one = [
        "reproduce",
        "accuracy",
        "--data",
        "synthetic",
        "--split",
        "0-0",
        "--participation",
        "1",
        "--methods",
        "feddc",
    ]
    one += ["--rounds", "3", "--report", str(report)]
    assert feddc(*one, "--out", str(out)) == 0
    [cell] = (each for each in out.iterdir() if each.is_dir())
    (cell / "summary.json").unlink()  # as an interrupted run leaves it
    records = (cell / "records.jsonl").read_text().splitlines(keepends=True)
    (cell / "records.jsonl").write_text("".join(records[:2]))
    (report / "accuracy-synthetic.json").unlink()
    capsys.readouterr()
    assert feddc(*one, "--out", str(out), "--stored") == 0
    page = (report / "accuracy-synthetic.md").read_text()
    assert "| FedDC | so far " in page
    assert "| FedDC | not yet, at round 2 |" in page
    assert "| feddc:alpha=0.005 | 0 | 2, unfinished | " in page
    assert '"status": "unfinished"' in (report / "accuracy-synthetic.json").read_text()
    assert feddc(*one, "--out", str(tmp_path / "other")) == 0  # what is stored is not the end of it
    assert "1 of 1 cells to run" in capsys.readouterr().out
    assert "| feddc:alpha=0.005 | 0 | 3 | " in (report / "accuracy-synthetic.md").read_text()


ONE = ["reproduce", "accuracy", "--data", "synthetic", "--split", "0-0", "--participation", "1", "--methods", "feddc"]
ONE += ["--rounds", "3"]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run of three rounds."""
    out = tmp_path_factory.mktemp("ended")
    assert feddc(*ONE, "--quiet", "--out", str(out)) == 0
    [cell] = (each for each in out.iterdir() if each.is_dir())
    return cell


def as_far_as(ended: Path, out: Path, rounds: int, status: str, accuracy: float) -> str:
    """The run in another folder: so many rounds of it, with this accuracy, finished or interrupted after them."""
    shutil.copytree(ended, out / ended.name)
    lines = (ended / "records.jsonl").read_text().splitlines()[:rounds]
    changed = [json.loads(line) | {"metrics": {"accuracy": accuracy}} for line in lines]
    (out / ended.name / "records.jsonl").write_text("".join(json.dumps(each) + "\n" for each in changed))
    if status == "unfinished":
        (out / ended.name / "summary.json").unlink()
    return str(out)


@pytest.mark.parametrize(
    ("stored", "here", "kept"),
    [
        ((3, "finished"), (3, "finished"), "stored"),  # an older run does not replace what was committed
        ((2, "finished"), (3, "finished"), "stored"),
        ((2, "finished"), (3, "unfinished"), "stored"),
        ((2, "unfinished"), (1, "unfinished"), "stored"),
        ((2, "unfinished"), (2, "unfinished"), "stored"),
        ((1, "unfinished"), (2, "unfinished"), "here"),
        ((2, "unfinished"), (2, "finished"), "here"),
        (None, (1, "unfinished"), "here"),
        (None, (3, "finished"), "here"),
    ],
)
def test_with_stored_a_run_in_out_only_adds_to_what_is_stored(
    stored: tuple[int, str] | None, here: tuple[int, str], kept: str, ended: Path, tmp_path: Path
) -> None:
    report = ["--stored", "--quiet", "--report", str(tmp_path / "pages")]
    if stored:
        assert feddc(*ONE, *report, "--out", as_far_as(ended, tmp_path / "then", *stored, 0.25)) == 0
    assert feddc(*ONE, *report, "--out", as_far_as(ended, tmp_path / "now", *here, 0.75)) == 0
    [found] = json.loads((tmp_path / "pages" / "accuracy-synthetic.json").read_text()).values()
    rounds, status = stored if stored and kept == "stored" else here
    assert found["accuracy"] == [0.25 if kept == "stored" else 0.75] * rounds
    assert found["status"] == status


@pytest.mark.parametrize(("status", "accuracy"), [("finished", 0.75), ("unfinished", 0.25)])
def test_without_stored_a_run_that_has_ended_replaces_a_stored_one(
    status: str, accuracy: float, ended: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = ["--report", str(tmp_path / "pages")]
    assert feddc(*ONE, *report, "--stored", "--out", as_far_as(ended, tmp_path / "then", 3, "finished", 0.25)) == 0
    assert feddc(*ONE, *report, "--out", as_far_as(ended, tmp_path / "now", 3, status, 0.75)) == 0
    assert "to run" not in capsys.readouterr().out
    [found] = json.loads((tmp_path / "pages" / "accuracy-synthetic.json").read_text()).values()
    assert found["accuracy"] == [accuracy] * 3


def test_the_page_of_all_cells_needs_its_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert feddc("reproduce", "summary") == 2
    assert capsys.readouterr().err == "feddc: summary needs --report, the folder with the results\n"
