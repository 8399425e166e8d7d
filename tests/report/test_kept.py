"""What a report shows of a study in which everything happens: kept as text, so that any change of it can be read.

`python -m tests.report.test_kept` writes tests/report/kept again. Read the difference before it is committed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from matplotlib.figure import Figure

from feddc.report import figures, summary
from feddc.report.export import export_csv, export_figures, export_latex
from feddc.report.figures import dots
from feddc.report.headline import headline
from feddc.report.lines import Setting, arrange
from feddc.report.numbers.measure import Measure
from feddc.report.numbers.verdicts import Compared
from feddc.report.runs import collect
from feddc.report.tables import Table, all_tables, compare_table, overview
from feddc.study.cells import Number
from tests.report.drawn import described
from tests.report.runs import reaching, write_run, write_seeds

KEPT = Path(__file__).with_name("kept")


def study(path: Path) -> list[Setting]:
    """Seeds that arrive, that do not, that diverge, that are under way; one seed and several; two settings."""
    iid = path / "iid"
    write_seeds(iid, "fedavg", [reaching(n, 12) for n in (8, 10, 9)])
    write_seeds(iid, "fedprox", [reaching(n, 12) for n in (9, 99, 11)])
    write_seeds(iid, "feddc:alpha=0.1", [_rising(n, 12) for n in (3, 4, 4)])
    write_seeds(iid, "feddc:alpha=1", [_rising(n, 12) for n in (6, 5, 6)])
    write_seeds(iid, "feddc:alpha=10", [[0.4 + i / 100 for i in range(12)]] * 2)
    lost = write_run(iid / "lost", method="feddc:alpha=100", rounds=12, scores=[0.5, 0.4, 0.3], done=3)
    (lost / "summary.json").write_text('{"format": 1, "status": "diverged"}')
    write_seeds(iid, "scaffold", [reaching(7, 12)])
    write_seeds(iid, "feddyn", [_rising(n, 12) for n in (7, 9)])
    write_run(iid / "going", method="feddyn", seed=2, rounds=12, scores=[0.6, 0.7, 0.95], done=3)
    write_seeds(path / "skewed", "fedavg", [_rising(n, 12) for n in (7, 8)], split="dirichlet:0.3")
    write_seeds(path / "skewed", "feddc:alpha=0.1", [_rising(n, 12) for n in (5, 6)], split="dirichlet:0.3")
    return arrange(collect([path]))


def _rising(reach: int, of: int) -> list[float]:
    """Accuracies that are 0.9 or more from one round on, each another."""
    return [0.9 + (i - reach) / 200 if i >= reach else 0.9 - 0.4 * (reach - i) / reach for i in range(1, of + 1)]


def tables(settings: list[Setting]) -> Iterator[str]:
    for setting in settings:
        yield f"= {setting.title}"
        for table in (compare_table(setting), *all_tables(setting)):
            yield from _table(table)
        said = headline(setting)
        yield from (f"! {each}" for each in (said.sentence, said.detail, said.cost) if each)
        yield from (f"! {card.question}: {card.answer}, {card.who}, {card.note}" for card in said.cards)
    for table in overview(settings):
        yield from _table(table)


def _table(table: Table) -> Iterator[str]:
    yield f"## {table.key}: {table.title} ({table.note})"
    for label, row in table.rows:
        yield label
        for column, entry in zip(table.columns, row, strict=True):
            numbers = {key: round(x, 4) if isinstance(x, float) else x for key, x in entry.numbers.items()}
            yield f"    {column.heading}: {entry.text}{' BOLD' if entry.bold else ''} {numbers}"


def drawings(settings: list[Setting]) -> Iterator[str]:
    first, second = settings
    lower = Measure("error", higher_is_better=False)
    turned = replace(
        second, lines=tuple(replace(x, runs=tuple(replace(r, measure=lower) for r in x.runs)) for x in second.lines)
    )
    short = replace(second, lines=tuple(replace(x, runs=_cut(x.runs[:1])) for x in second.lines))
    shown = {
        "first": (first, (1, 2)),
        "second": (second, (1,)),
        "lower is better": (turned, (2,)),
        "short": (short, (1,)),
    }
    for name, (setting, widths) in shown.items():
        for drawing, draw in figures.DRAWINGS.items():
            for columns in widths:
                with figures.paper_style():
                    figure = draw(setting, columns)
                    yield f"= {name}, {drawing}, {columns}"
                    yield from [] if figure is None else described(figure)


def _cut(runs: Any) -> Any:
    return tuple(replace(run, points=run.points[:1], records=run.records[:1]) for run in runs)


def pictures(settings: list[Setting], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Those of the pages of results, and how files are saved."""
    saved: list[str] = []

    def save(figure: Figure, path: Path, dpi: float) -> None:
        types = [matplotlib.rcParams[key] for key in ("pdf.fonttype", "svg.fonttype")]
        saved.extend([f"= {path.name}, {dpi:g} dpi, fonts {types}", *described(figure)])

    monkeypatch.setattr(Figure, "savefig", save)
    nowhere = Path("nowhere")
    assert figures.save_picture(settings[1], nowhere / "convergence.png")
    assert dots.save_dots(settings[0], nowhere / "dots.png")
    assert not dots.save_dots(settings[1], nowhere / "dots.png")
    summary.save_picture(CELLS, nowhere / "summary.png")
    yield from saved
    with tempfile.TemporaryDirectory() as folder:
        saved.clear()
        list(export_figures(settings[1:], Path(folder), ["pdf"]))
        yield from (line for line in saved if line.startswith("="))


CELLS = [
    Compared("mnist", "iid", "FedAvg", 0.98, Number(40), (38.0, 44.0, 41.0)),
    Compared("mnist", "iid", "FedDC", 0.98, Number(30), (29.0,)),
    Compared("cifar10", "iid", "FedDC", 0.8, Number(100, censored=True), (90.0,), (100, 100)),
    Compared("cifar10", "iid", "FedAvg", 0.8, Number(120, censored=True), (118.0, 110.0)),
    Compared("cifar10", "iid", "FedDyn", 0.8, Number(80), (), (100,)),
    Compared("cifar10", "iid", "FedProx", 0.8, Number(150), (), (70,)),
    Compared("cifar10", "iid", "FedDC", None, Number(85.0), (84.5, 85.0, 85.1)),
    Compared("cifar100", "iid", "SCAFFOLD", None, Number(50.0), (99.0, 40.0)),
    Compared("elsewhere", "iid", "FedDyn", None, Number(60.0), (61.0,)),
]


def numbers(settings: list[Setting]) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        for file in export_csv(settings, Path(folder)):
            lines = file.read_text(encoding="utf-8").splitlines()
            kept = lines if len(lines) <= 40 else [*lines[:12], "...", *lines[-12:]]
            yield from (f"= {file.name}, {len(lines)} lines", *(",".join(map(_short, x.split(","))) for x in kept))


def _short(text: str) -> str:
    try:
        return f"{float(text):.6g}"
    except ValueError:
        return text


def paper(settings: list[Setting]) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        for file in export_latex(settings[1:], Path(folder)):
            if file.suffix == ".tex":
                yield from (f"= {file.name}", *file.read_text(encoding="utf-8").splitlines())


KINDS = ("tables", "drawings", "pictures", "numbers", "paper")


def made(kind: str, settings: list[Setting], monkeypatch: pytest.MonkeyPatch) -> str:
    more = (monkeypatch,) if kind == "pictures" else ()
    return "\n".join(globals()[kind](settings, *more)) + "\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_shows_what_it_showed(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = made(kind, study(tmp_path / "runs"), monkeypatch).splitlines()
    assert found == (KEPT / f"{kind}.txt").read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    KEPT.mkdir(exist_ok=True)
    for name in KINDS:
        with tempfile.TemporaryDirectory() as runs, pytest.MonkeyPatch.context() as patch:
            (KEPT / f"{name}.txt").write_text(made(name, study(Path(runs)), patch), encoding="utf-8")
