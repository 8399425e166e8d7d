"""Figures for a paper, and the numbers that they draw."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from feddc.report.export import export_csv, export_figures, export_latex
from feddc.report.figures import _legend, _window, alpha, convergence, drift, new_figure, series, split as split_figure
from feddc.report.figures.dots import save_dots
from feddc.report.lines import Setting, arrange
from feddc.report.runs import collect
from tests.report.runs import reaching, write_comparison, write_run, write_seeds


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    for seed in (0, 1):
        write_comparison(tmp_path / "runs" / str(seed), ("fedavg", "feddc:alpha=0.1", "feddc:alpha=1"), seed=seed)
    [found] = arrange(collect([tmp_path / "runs"]))
    return found


def test_every_format_for_one_and_two_columns_with_its_numbers(setting: Setting, tmp_path: Path) -> None:
    files = list(export_figures([setting], tmp_path / "out", ["pdf", "svg"]))
    figures = [f"{name}{wide}" for name in ("convergence", "drift", "split", "alpha") for wide in ("", "-wide")]
    numbers = ["convergence", "drift", "drift-clients", "split", "alpha"]
    wanted = [f"{each}.{kind}" for each in figures for kind in ("pdf", "svg")] + [f"{each}.csv" for each in numbers]
    assert sorted(file.name for file in files) == sorted(wanted)
    starts = {"pdf": b"%PDF", "svg": b"<?xml"}
    assert all(file.read_bytes().startswith(starts.get(file.suffix[1:], b"")) for file in files)
    found = rows(tmp_path / "out" / "convergence.csv")
    assert len(found) == 3 * 20
    last = [float(row["score"]) for row in found if row["method"] == "FedAvg"][-1]
    wanted_last = [run.records[-1].accuracy or 0.0 for run in setting.lines[0].runs]
    assert last == pytest.approx(50 * sum(wanted_last), abs=1e-2)
    assert b"FedAvg" in (tmp_path / "out" / "convergence.svg").read_bytes()  # text stays text


def drawn(axes: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


def test_the_numbers_are_those_of_the_figure(setting: Setting, tmp_path: Path) -> None:
    """drift.csv had the cosines of single rounds, the figure their running mean."""
    list(export_figures([setting], tmp_path, []))
    figure = drift(setting)
    assert figure is not None
    for axes, column in zip(figure.axes, ("gap", "cosine_mean5"), strict=True):
        for label, line in drawn(axes).items():
            found = [row[column] for row in rows(tmp_path / "drift.csv") if row["method"] == label]
            wanted = [float(each) for each in found if each]
            assert list(line.get_ydata()) == wanted
    figure = convergence(setting)
    assert figure is not None
    for label, line in drawn(figure.axes[0]).items():
        wanted = [float(row["score"]) for row in rows(tmp_path / "convergence.csv") if row["method"] == label]
        assert list(line.get_ydata()) == wanted


def test_a_label_goes_with_its_line_and_its_colour(setting: Setting) -> None:
    figure = convergence(setting)
    assert figure is not None
    found = drawn(figure.axes[0])
    assert list(found) == ["FedAvg", "FedDC α=0.1", "FedDC α=1"]
    assert found["FedAvg"].get_color() == "black"
    assert found["FedAvg"].get_ydata()[-1] < found["FedDC α=1"].get_ydata()[-1]
    legend = figure.legends[0]
    shown = {
        text.get_text(): handle.get_color() for text, handle in zip(legend.texts, legend.legend_handles, strict=True)
    }
    assert shown == {label: line.get_color() for label, line in found.items()}


def test_settings_have_files_of_their_own_and_what_is_missing_is_left_out(tmp_path: Path) -> None:
    for split in ("iid", "dirichlet:0.1"):
        run = write_run(tmp_path / "runs" / split, split=split, drift=False)
        (run / "split.json").unlink()
    files = list(export_figures(arrange(collect([tmp_path / "runs"])), tmp_path / "out", ["png"]))
    assert sorted(file.name for file in files) == [
        f"{stem}-convergence{end}" for stem in ("dirichlet-0.1", "iid") for end in ("-wide.png", ".csv", ".png")
    ]


def test_a_split_without_samples_is_not_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "a")
    [setting] = arrange(collect([tmp_path]))
    monkeypatch.setattr(series, "split", lambda _: {"counts": [[0, 0], [0, 0]]})
    assert split_figure(setting) is None
    monkeypatch.setattr(series, "split", lambda _: None)
    assert split_figure(setting) is None


def test_a_split_with_one_client_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "a")
    [setting] = arrange(collect([tmp_path]))
    monkeypatch.setattr(series, "split", lambda _: {"counts": [[5, 0, 10]]})
    figure = split_figure(setting)
    assert figure is not None
    [dots] = figure.axes[0].collections
    assert dots.get_offsets().tolist() == [[0.0, 0.0], [0.0, 2.0]]  # type: ignore[union-attr]
    assert dots.get_sizes().tolist() == [75.0, 150.0]  # type: ignore[attr-defined]


def test_an_axis_leaves_the_worst_values_out() -> None:
    values = [float(each) for each in range(50)]
    assert _window(values, True) == pytest.approx((2 - 0.05 * 47, 49 + 0.05 * 47))
    assert _window(values, False) == pytest.approx((0 - 0.05 * 47, 47 + 0.05 * 47))
    assert _window(values[:25], True)[0] == pytest.approx(1 - 0.05 * 23)
    assert _window([3.0, 3.0], True) == (2.0, 4.0)


@pytest.mark.parametrize("write", [export_csv, export_latex, lambda *args: export_figures(*args, [])])
def test_folders_are_made(write: Any, setting: Setting, tmp_path: Path) -> None:
    assert list(write([setting], tmp_path / "papers" / "first"))
    assert any((tmp_path / "papers" / "first").iterdir())


@pytest.mark.parametrize(("columns", "most"), [(1, 5), (2, 7)])
def test_an_axis_has_no_more_steps_than_there_is_room_for(columns: int, most: int) -> None:
    _, [axes] = new_figure(1, columns)
    steps = axes.xaxis.get_major_locator().tick_values  # type: ignore[attr-defined]
    assert (len(steps(0, most)), len(steps(0, most + 1))) == (most + 1, (most + 1) // 2 + 1)


@pytest.mark.parametrize(
    ("columns", "letters", "across"),
    [(1, 10, 3), (1, 11, 2), (1, 3, 4), (2, 10, 6), (2, 11, 5), (1, 46, 1), (1, 60, 1), (2, 1, 9)],
)
def test_labels_of_a_legend_stand_side_by_side_as_far_as_there_is_room(columns: int, letters: int, across: int) -> None:
    figure, [axes] = new_figure(1, columns)
    height = figure.get_figheight()
    for i in range(9):
        axes.plot([0], [0], label=f"{i}" * (letters if i == 4 else 1))
    _legend(figure, axes, columns)
    assert figure.legends[0]._ncols == across  # type: ignore[attr-defined]
    rows = -(-9 // across)
    assert figure.get_figheight() == pytest.approx(height + 0.14 * rows - 0.15)


@pytest.mark.parametrize(("values", "turned"), [(4, 0.0), (5, 90.0)])
def test_more_than_four_values_of_alpha_are_written_upwards(values: int, turned: float, tmp_path: Path) -> None:
    write_comparison(tmp_path, tuple(f"feddc:alpha={n}" for n in range(1, values + 1)), rounds=3)
    [setting] = arrange(collect([tmp_path]))
    figure = alpha(setting)
    assert figure is not None
    for axes in figure.axes:
        labels = axes.get_xticklabels()
        assert [label.get_text() for label in labels] == [str(n) for n in range(1, values + 1)]
        assert {label.get_rotation() for label in labels} == {turned}


def test_six_methods_are_rows_of_dots_and_five_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Any] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    methods = ("fedavg", "fedprox", "scaffold", "feddyn", "feddc", "fedadam")
    for rounds, method in enumerate(methods, start=3):
        write_seeds(tmp_path, method, [reaching(rounds, 9)])
    [setting] = arrange(collect([tmp_path]))
    assert not save_dots(replace(setting, lines=setting.lines[1:]), tmp_path / "dots.png")
    assert save_dots(setting, tmp_path / "dots.png")
    [figure] = figures
    by_rounds, by_bytes, by_score = figure.axes
    names = [label.get_text() for label in by_rounds.get_yticklabels()]
    assert names == ["FedAdam", "FedDC", "FedDyn", "SCAFFOLD", "FedProx", "FedAvg"]
    spent = {line.label: line.runs[0].reach(0.9) for line in setting.lines}
    for name, rounds, moved, score in zip(names, by_rounds.lines, by_bytes.lines, by_score.lines, strict=True):
        point = spent[name]
        assert point is not None
        assert (rounds.get_xdata(), moved.get_xdata()) == ([point.round], [point.moved / 1e6])
        assert score.get_xdata() == pytest.approx([91.0])
