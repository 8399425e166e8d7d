"""What a paper needs as files: figures, and every number of every figure as CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from .figures import DRAWINGS, WIDTHS, paper_style, series
from .lines import Setting
from .tables import Table, all_tables, latex, overview
from .tables.clients import site_table, strips

Row: TypeAlias = Sequence[object]
WIDE = "-wide"
"""What the names of figures over both columns end in."""


def export_figures(settings: Sequence[Setting], folder: Path, formats: Sequence[str]) -> Iterator[Path]:
    """Write the figures of every setting for one and two columns, with their numbers, and name the files."""
    folder.mkdir(parents=True, exist_ok=True)
    yield from _draw_all(settings, folder, formats)
    yield from export_numbers(settings, folder)


def _draw_all(settings: Sequence[Setting], folder: Path, formats: Sequence[str]) -> Iterator[Path]:
    for setting in settings:
        for name, draw in DRAWINGS.items():
            for columns in WIDTHS:
                with paper_style():
                    figure = draw(setting, columns)
                    for each in formats if figure is not None else ():
                        file = folder / f"{stem(setting, settings)}{name}{WIDE if columns == 2 else ''}.{each}"
                        figure.savefig(file, dpi=300)  # type: ignore[union-attr]
                        yield file


def export_latex(settings: Sequence[Setting], folder: Path) -> Iterator[Path]:
    """Write every table as LaTeX, every figure as PDF, and ``report.tex``, which shows them all."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = list(_all_tables(settings))
    for name, table in tables:
        (folder / f"{name}.tex").write_text(latex.tabular(table, name), encoding="utf-8")
        yield folder / f"{name}.tex"
    figures = list(_draw_all(settings, folder, ["pdf"]))
    yield from figures
    shown = [(figure.stem, figure.stem.endswith(WIDE)) for figure in figures]
    (folder / "report.tex").write_text(latex.document([name for name, _ in tables], shown), encoding="utf-8")
    yield folder / "report.tex"


def export_csv(settings: Sequence[Setting], folder: Path) -> Iterator[Path]:
    """Write every number of every table and figure."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in _all_tables(settings):
        yield write_csv(folder / f"table-{name}.csv", table_rows(table))
    yield from export_numbers(settings, folder)


def table_rows(table: Table) -> list[Row]:
    """A table as numbers: for each column what stands behind its text, or the text where that is all there is."""
    heads, kinds = ["method"], []
    for i, column in enumerate(table.columns):
        found = list(dict.fromkeys(kind for _, row in table.rows for kind in row[i].numbers))
        kinds.append(found)
        heads += [column.key if kind == "mean" else f"{column.key}_{kind}" for kind in found] or [column.key]
    rows: list[Row] = [heads]
    for label, entries in table.rows:
        pairs = zip(entries, kinds, strict=True)
        rows.append([label, *(x for e, each in pairs for x in ([e.numbers.get(k, "") for k in each] or [e.text]))])
    return rows


def _all_tables(settings: Sequence[Setting]) -> Iterator[tuple[str, Table]]:
    for setting in settings:
        sites = [table for line in setting.lines if (table := site_table(line)) is not None]
        yield from ((f"{stem(setting, settings)}{table.key}", table) for table in (*all_tables(setting), *sites))
    if len(settings) > 1:
        yield from ((f"overview-{i}", table) for i, table in enumerate(overview(settings), start=1))


def export_numbers(settings: Sequence[Setting], folder: Path) -> Iterator[Path]:
    """Write the numbers that the figures of every setting draw, into a folder that is there."""
    for setting in settings:
        for name, rows in NUMBERS.items():
            head, *found = rows(setting)
            if found:
                yield write_csv(folder / f"{stem(setting, settings)}{name}.csv", [head, *found])


def stem(setting: Setting, settings: Sequence[Setting]) -> str:
    """What a setting's files begin with: nothing where there is only one."""
    return "" if len(settings) == 1 else re.sub(r"[^A-Za-z0-9.]+", "-", setting.title).strip("-") + "-"


def write_csv(path: Path, rows: Sequence[Row]) -> Path:
    """One CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def convergence(setting: Setting) -> list[Row]:
    rows: list[Row] = [("method", "round", "megabytes", "seconds", "score", "score_sd", "loss", "loss_sd")]
    for line in setting.lines:
        found = series.curves(line)
        blank = [""] * len(found["round"])
        columns = [found["round"], found["megabytes"], found.get("seconds", blank)]
        columns += _band(found["score"]) + _band(found.get("loss", {"mean": blank}))
        rows += [(line.label, *values) for values in zip(*columns, strict=True)]
    return rows


def drift(setting: Setting) -> list[Row]:
    rows: list[Row] = [("method", "round", "gap", "gap_sd", "update", "update_sd", "cosine_mean5", "cosine_mean5_sd")]
    for line in setting.lines:
        found = series.drift_curves(line)
        if found is not None:
            cosines = dict(zip(found["cosine_round"], zip(*_band(found["cosine"]), strict=True), strict=True))
            columns = [found["round"], *_band(found["gap"]), *_band(found["update"])]
            rows += [(line.label, *each, *cosines.get(each[0], ("", ""))) for each in zip(*columns, strict=True)]
    return rows


def heat(setting: Setting) -> list[Row]:
    """Every client and round of the first seed: the numbers of the heat maps."""
    rows: list[Row] = [("method", "client", "round", "update", "drift")]
    for i, found in series.heats([setting], setting).items():
        blank = [[None] * len(found["round"]) for _ in found["update"]]
        for client, pair in enumerate(zip(found["update"], found.get("drift", blank), strict=True)):
            for place, (update, held) in enumerate(zip(*pair, strict=True)):
                if update is not None or held is not None:
                    rows.append((setting.lines[i].label, client, found["round"][place], update, held))
    return rows


def clients(setting: Setting) -> list[Row]:
    """The scores of single clients, where records have them."""
    pairs = ((strip, zip(strip["client"], strip["score"], strict=True)) for strip in strips(setting))
    return [("method", "client", "score"), *((strip["label"], *each) for strip, found in pairs for each in found)]


def split(setting: Setting) -> list[Row]:
    return [("client", "class", "samples"), *series.held(series.split(setting))]


def alpha(setting: Setting) -> list[Row]:
    rows: list[Row] = [("method", "alpha", "best", "best_sd", "last10", "last10_sd", "rounds", "rounds_sd", "failed")]
    for family in series.sensitivity(setting):
        scores = dict(
            zip(family["alpha"], zip(*_band(family["best"]), *_band(family["last"]), strict=True), strict=True)
        )
        rounds = dict(zip(family["rounds_alpha"], zip(*_band(family["rounds"]), strict=True), strict=True))
        bounds = dict(zip(family["not_reached"], family["bound"], strict=True))
        for value in sorted({*scores, *rounds, *bounds, *family["diverged"]}):
            failed = "diverged" if value in family["diverged"] else f">{bounds[value]}" if value in bounds else ""
            row = (*scores.get(value, ("",) * 4), *rounds.get(value, ("",) * 2))
            rows.append((family["label"], value, *row, failed))
    return rows


NUMBERS: dict[str, Callable[[Setting], list[Row]]] = {
    "convergence": convergence,
    "drift": drift,
    "drift-clients": heat,
    "clients": clients,
    "split": split,
    "alpha": alpha,
}


def _band(values: series.Numbers) -> list[Sequence[object]]:
    """Mean and deviation; the deviation is empty where there is one seed."""
    return [values["mean"], ["" if each is None else each for each in values.get("sd", [""] * len(values["mean"]))]]
