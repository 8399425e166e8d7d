"""The benchmark runs. How fast is not a matter for a test."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import plain
from benchmarks.__main__ import main
from benchmarks.curves import main as curves
from benchmarks.floor import step_flops
from benchmarks.judged import Judges, main as judged
from benchmarks.targets import main as targets
from benchmarks.workloads import WORKLOADS

from feddc.paper.studies import Selection, select
from feddc.study.cells import Cell
from feddc.study.config import resolve
from feddc.study.sources import Named


def test_a_smoke_run_of_two_workloads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    main(["synthetic", "many", "--smoke", "--repeats", "1", "--json", str(file)])
    results = json.loads(file.read_text())
    contestants = [row["contestant"].partition(",")[0] for row in results["rows"]]
    assert contestants[0] == "plain loop"
    assert contestants[-1] == "floor"
    assert {"in-process", "vectorised"} < set(contestants)
    assert all(row["step"]["median"] > 0 for row in results["rows"])
    assert [each["clients"] for each in results["many"]] == [60]
    assert "plain" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:this processor has no bfloat16")
def test_a_smoke_run_of_the_benchmark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    picture = tmp_path / "scaling.png"
    workloads = ["synthetic", "fcn", "many", "large", "start", "scaling"]
    main([*workloads, "--smoke", "--repeats", "1", "--json", str(file), "--picture", str(picture)])
    results = json.loads(file.read_text())
    rows: dict[str, list[str]] = {row["workload"]: [] for row in results["rows"]}
    for row in results["rows"]:
        rows[row["workload"]].append(row["contestant"].partition(",")[0])
        assert row["step"]["median"] > 0
    assert list(rows) == ["synthetic", "fcn"]
    assert all(each[0] == "plain loop" and each[-1] == "floor" for each in rows.values())
    assert {"in-process", "vectorised"} < set(rows["synthetic"])
    assert {"in-process", "workers"} < set(rows["fcn"])
    assert {"workers, bf16", "floor, bf16"} < {row["contestant"] for row in results["rows"]}
    assert all(row["memory"] > 0 for row in results["rows"] if row["contestant"] == "workers")
    assert [each["clients"] for each in results["many"]] == [60]
    assert [each["executor"] for each in results["large"]] == ["in-process", "workers"]
    assert results["start"]["median"] > 0
    assert list(results["scaling"]) == ["cores", "cohort", "parameters", "clients"]
    assert picture.stat().st_size > 1000
    assert "plain" in capsys.readouterr().out


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_takes_a_step(name: str) -> None:
    workload = WORKLOADS[name](True)
    assert plain.seconds_per_step(workload, 1, 1) > 0
    assert plain.seconds_per_step(workload, 1, 1, bare=True) > 0
    assert step_flops(workload) > 0


def test_targets_are_printed_from_stored_measurements(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def row(contestant: str, milliseconds: float, ours: bool = False) -> dict[str, object]:
        share = {"median": 0.05} if ours else None
        step = {"median": milliseconds / 1e3}
        about = {"evaluation": share, "rest": share, "memory": 300.0 if ours else None}
        return {"workload": "fcn", "contestant": contestant, "step": step, **about}

    rows = [row("bare loop, 1 thread", 1.8), row("workers", 0.45, ours=True), row("fedjax, jit", 0.9)]
    rows += [row("workers, bf16", 0.3, ours=True), row("workers, evaluation bf16", 0.45, ours=True)]
    many = [{"clients": 1000, "seconds": 1.0, "megabytes": 5.0}, {"clients": 10**6, "seconds": 1.2, "megabytes": 25.0}]
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"rows": rows, "many": many}))
    targets([str(file)])
    printed = capsys.readouterr().out
    assert "| FCN, whole round over a bare one-thread loop | ≥ 2.7 | 3.60 | ≥ 3.3 | 5.40 |" in printed
    assert "| FCN, training only, over fedjax jit | ≥ 1.4 | 2.00 | ≥ 1.9 | 3.00 |" in printed
    assert "| FCN, evaluation as part of a round, workers, evaluation bf16 | ≤ 5 % | 5.0% |" in printed
    assert "| workers, bf16 | 300 |" in printed
    assert "| 1,000 → 1,000,000 clients, same cohort | < 1.3 ×, < 200 MB more | 1.20 ×, 20 MB more |" in printed
    assert "CNN" not in printed


def test_curves_of_two_precisions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind, seed, level in (("float32", 0, 90), ("float32", 1, 92), ("bf16", 0, 91), ("bf16", 1, 92.5)):
        folder = tmp_path / f"{kind}-{seed}"
        folder.mkdir()
        (folder / "config.toml").write_text(f'data = "mnist"\nprecision = "{kind}"\nseed = {seed}\n')
        lines = [json.dumps({"metrics": {"accuracy": 0.5 if round < 10 else level / 100}}) for round in range(1, 13)]
        (folder / "records.jsonl").write_text("\n".join(lines) + "\n")
    curves(str(tmp_path), str(tmp_path), str(tmp_path / "bf16.png"))
    printed = capsys.readouterr().out
    assert "| round | float32, seed 0 | float32, seed 1 | bf16, seed 0 | bf16, seed 1 |" in printed
    assert "| 12 | 90.00 | 92.00 | 91.00 | 92.50 |" in printed
    assert printed.count("apart from round 10 on, mean: precisions 0.75, seeds 1.75 points") == 2
    assert (tmp_path / "bf16.png").stat().st_size > 1000


@pytest.mark.parametrize(("participation", "same"), [(1.0, True), (0.3, False)])
def test_the_three_models_that_can_be_judged(participation: float, same: bool) -> None:
    """The global model has the record's score; with everybody in the cohort its mean is the mean of all."""
    values = {"data": "digits", "method": "feddc", "participation": participation, "rounds": 4}
    simulation, judges = Named().simulation(resolve(values)), Judges()
    simulation.callbacks.append(judges)
    records = list(simulation.run())
    whole, cohort, everybody = judges.scores.values()
    assert whole == [record.accuracy for record in records]
    assert (cohort == everybody) == same
    assert cohort != whole, "FedDC's global model is not the mean of its clients'"
    assert judges.rounds_to(max(cohort))["mean of the cohort"] == 1 + cohort.index(max(cohort))
    assert judges.rounds_to(1.1) == dict.fromkeys(judges.scores)


def test_judged_models_are_printed_beside_the_published(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def small(study: str, chosen: Selection) -> list[Cell]:
        cells = select(study, chosen)
        return [replace(each, config=replace(each.config, data="digits", model="linear")) for each in cells]

    monkeypatch.setattr("benchmarks.judged.select", small)
    judged(["--split", "iid", "--methods", "feddc", "--target", "0.96", "--rounds", "1", "--seeds", "0,1"])
    printed = capsys.readouterr()
    *_, row = printed.out.splitlines()
    assert "feddc, seed 1: " in printed.err, "long work shows itself"
    assert "1/1" in printed.err
    assert row == "| mnist, 100 clients, 15 %, iid, feddc | 16 | 2 not reached | 2 not reached | 2 not reached |"
