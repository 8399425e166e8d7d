"""What the figures draw is what the runs hold."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev

import pytest

from feddc.report.figures import series
from feddc.report.figures.series import band, smooth
from feddc.report.lines import Setting, arrange
from feddc.report.runs import collect
from tests.report.runs import reaching, write_comparison, write_run, write_seeds


def only(path: Path) -> Setting:
    [setting] = arrange(collect([path]))
    return setting


def test_a_band_is_mean_and_deviation() -> None:
    assert band([[1, 3]]) == {"mean": [2.0], "sd": [1.4142]}
    assert band([[1], [3]]) == {"mean": [1.0, 3.0]}
    assert band([[1, 3], [5]]) == {"mean": [2.0, 5.0], "sd": [1.4142, None]}


def test_curves_are_means_over_seeds(tmp_path: Path) -> None:
    write_seeds(tmp_path, "feddc", [[0.5, 0.6, 0.7], [0.6, 0.8]])
    config = tmp_path / "feddc-1" / "config.toml"
    config.write_text(config.read_text().replace("rounds = 2", "rounds = 3"))
    [line] = only(tmp_path).lines
    found = series.curves(line)
    assert found["round"] == [1, 2]  # as far as both go
    assert found["score"] == {"mean": [55.0, 70.0], "sd": [7.0711, 14.142]}
    totals = [sum(r.bytes_up + r.bytes_down for r in run.records[:2]) / 1e6 for run in line.runs]
    assert found["megabytes"][-1] == pytest.approx(mean(totals))
    assert found["seconds"] == [0.01, 0.02]
    assert found["loss"]["mean"] == [2.3, 1.15]


def test_a_seed_under_way_does_not_cut_the_others_short(tmp_path: Path) -> None:
    write_seeds(tmp_path, "feddc", [[0.5, 0.6, 0.7]])
    write_run(tmp_path / "more", seed=1, scores=[0.1], rounds=3, done=1)
    [line] = only(tmp_path).lines
    assert series.curves(line)["round"] == [1, 2, 3]


def test_drift_of_the_cohort(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run(tmp_path / str(seed), seed=seed)
    [line] = only(tmp_path).lines
    found = series.drift_curves(line)
    assert found is not None
    gaps = [mean(run.records[3].drift.gap) for run in line.runs if run.records[3].drift is not None]
    assert found["gap"]["mean"][3] == pytest.approx(mean(gaps), rel=1e-4)
    assert found["gap"]["sd"][3] == pytest.approx(stdev(gaps), rel=1e-4)
    assert set(found["cosine"]["mean"]) == {0.2}


def test_heat_maps_show_what_their_name_says(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a")
    text = (path / "records.jsonl").read_text().splitlines()
    first = json.loads(text[0])
    first["drift"] |= {"update": [7.0] * len(first["participants"]), "drift": [3.0] * len(first["participants"])}
    (path / "records.jsonl").write_text("\n".join([json.dumps(first), *text[1:]]) + "\n")
    setting = only(path)
    found = series.heats([setting], setting)[0]
    client = setting.runs[0].records[0].participants[0]
    assert (found["update"][client][0], found["drift"][client][0]) == (7.0, 3.0)


def test_every_alpha_is_there_and_failures_are_marked(tmp_path: Path) -> None:
    write_seeds(tmp_path, "feddc:alpha=0.01", [[0.91, 0.95, 0.93], [0.5, 0.97, 0.95]])
    write_seeds(tmp_path, "feddc:alpha=0.1", [reaching(9, 3), reaching(2, 3)])
    write_seeds(tmp_path, "feddc:alpha=1", [[0.2, 0.1, 0.1]], status="diverged")
    [family] = series.sensitivity(only(tmp_path))
    assert family["alpha"] == [0.01, 0.1]
    assert family["best"]["mean"] == [96.0, 70.5]
    assert family["last"]["mean"][0] == pytest.approx(mean([93.0, 242 / 3]), rel=1e-4)
    assert (family["rounds_alpha"], family["rounds"]["mean"]) == ([0.01], [1.5])
    assert (family["not_reached"], family["bound"], family["diverged"]) == ([0.1, 1.0], [3, 3], [1.0])


def test_smooth_keeps_length_and_level() -> None:
    assert smooth([1.0] * 7) == [1.0] * 7
    assert smooth([0.0, 3.0, 0.0], reach=1) == [1.5, 1.0, 1.5]


def test_lines_keep_their_look_from_figure_to_figure(tmp_path: Path) -> None:
    from feddc.report.figures.styles import INK, styles

    setting = only(write_comparison(tmp_path / "c", ("fedavg", "scaffold", "feddyn", "feddc")))
    looks = dict(zip([line.label for line in setting.lines], styles(setting.lines), strict=True))
    assert looks["FedAvg"].colour == INK
    assert (looks["FedDC"].colour, looks["FedDC"].width) == ("#D55E00", 3)
    assert len({look.colour for look in looks.values()}) == 4


def test_heat_maps_have_at_most_so_many_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred, fewer where there are many clients and methods, and twenty at the least."""
    write_run(tmp_path / "a", rounds=450)
    setting = only(tmp_path)
    for cells, columns in ((400_000, 200), (1200, 100), (12, 20)):
        monkeypatch.setattr(series, "HEAT_CELLS", cells)
        found = series.heats([setting], setting)[0]
        assert len(found["round"]) == len(found["update"][0]) == columns
    assert len(series.heats([setting, setting], setting)[0]["round"]) == 20
    monkeypatch.setattr(series, "HEAT_CELLS", 1200)
    assert len(series.heats([setting, setting], setting)[0]["round"]) == 50


def test_rounds_that_share_a_column_are_averaged(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a", rounds=4)
    records = [json.loads(line) for line in (path / "records.jsonl").read_text().splitlines()]
    for record, who, update in zip(records, ([0], [0, 1], [1], [1]), ([1.0], [2.0, 5.0], [6.0], [8.246]), strict=True):
        record |= {"participants": who, "drift": {"update": update, "gap": update, "drift": None, "cosine": None}}
    (path / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    found = series.heat(only(path).lines[0], clients=3, columns=2)
    assert found == {"round": [1, 3], "update": [[1.5, None], [5.0, 7.12], [None, None]]}


def test_a_cosine_of_zero_is_zero(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a", rounds=3)
    records = [json.loads(line) for line in (path / "records.jsonl").read_text().splitlines()]
    for record, cosine in zip(records, (0.0, 0.0, 0.3), strict=True):
        record["drift"]["cosine"] = cosine
    (path / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    found = series.drift_curves(only(path).lines[0])
    assert found is not None
    assert found["cosine"]["mean"] == [0.1, 0.1, 0.1]


def test_a_score_of_zero_is_zero(tmp_path: Path) -> None:
    write_seeds(tmp_path, "feddc", [[0.0, 0.5]])
    assert series.curves(only(tmp_path).lines[0])["score"]["mean"] == [0.0, 50.0]


def test_megabytes_are_millions_of_bytes(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a", rounds=1)
    [record] = [json.loads(line) for line in (path / "records.jsonl").read_text().splitlines()]
    (path / "records.jsonl").write_text(json.dumps(record | {"bytes_up": 1_000_000, "bytes_down": 51}) + "\n")
    assert series.curves(only(path).lines[0])["megabytes"] == [1.0001]  # five digits


def test_an_error_is_what_is_missing_with_five_digits() -> None:
    assert series.error({"mean": [12.3456, 99.7], "sd": [1.0, 2.0]}) == {"mean": [87.654, 0.3], "sd": [1.0, 2.0]}
