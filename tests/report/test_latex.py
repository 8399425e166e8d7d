"""LaTeX tables, and every number as CSV: what a paper needs."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from feddc.report.export import export_csv, export_latex, table_rows
from feddc.report.lines import Setting, arrange
from feddc.report.runs import collect
from feddc.report.tables import Table, difference_table, rounds_table, score_table
from feddc.report.tables.columns import Entry, TableColumn
from feddc.report.tables.latex import escape, tabular
from tests.report.runs import reaching, write_run, write_seeds


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    write_seeds(tmp_path / "runs", "fedavg", [reaching(n, 34) for n in (27, 99, 99)])
    write_seeds(tmp_path / "runs", "scaffold", [reaching(n, 34) for n in (99, 99, 99)])
    write_seeds(tmp_path / "runs", "feddc:alpha=0.1", [reaching(n, 34) for n in (12, 13, 13)])
    write_seeds(tmp_path / "runs", "feddc:alpha=1", [reaching(n, 34) for n in (22, 23, 22)])
    [found] = arrange(collect([tmp_path / "runs"]))
    return found


def test_a_table_as_papers_print_them(setting: Setting) -> None:
    text = tabular(rounds_table(setting, 0.9), "rounds")
    for word in (r"\toprule", r"\midrule", r"\bottomrule", r"\begin{tabular}{lrrrrr}", r"Rounds to 90 \%."):
        assert word in text
    rows = {line.partition(" &")[0]: line for line in text.splitlines() if line.endswith(r"\\")}
    assert r"FedDC $\alpha$=0.1 & \textbf{\boldmath $12.7 \pm 0.6$} & $>2.5\times$" in text
    assert "SCAFFOLD & $>34$ &" in text
    assert r"FedAvg & $27$ ($1$ of $3$ seeds, the others $>34$)" in text
    assert [row.count("boldmath") for row in rows.values()] == [0, 0, 0, 1, 0]
    assert rows["FedAvg"].endswith(r"& $3$ \\")  # n


def test_text_of_runs_cannot_be_latex() -> None:
    assert escape(r"\input{x} & 50 % $a_1$ ~^#") == (
        r"\textbackslash{}input\{x\} \& 50 \% \$a\_1\$ \textasciitilde{}\textasciicircum{}\#"
    )
    assert escape("FedDC α=0.1 漢") == r"FedDC $\alpha$=0.1 ?"
    assert escape("Ångström \u017f\u0180") == "Ångström \u017f?"  # T1 has Latin letters up to here


def test_every_number_of_a_table_as_csv(setting: Setting) -> None:
    head, *rows = table_rows(rounds_table(setting, 0.9))
    found = {str(row[0]): dict(zip(head, row, strict=True)) for row in rows}
    assert found["FedAvg"]["rounds"] == 27
    assert (found["FedAvg"]["rounds_n"], found["FedAvg"]["rounds_bound"]) == (1, ">34")
    assert found["FedDC α=0.1"]["rounds"] == pytest.approx(38 / 3)
    assert found["FedDC α=0.1"]["rounds_sd"] == pytest.approx(0.57735, abs=1e-5)
    assert (found["FedDC α=0.1"]["speedup_bound"], found["FedDC α=0.1"]["seeds"]) == (">2.5", 3)
    differences = difference_table(setting)
    assert differences is not None
    head, *rows = table_rows(differences)
    found = {str(row[0]): dict(zip(head, row, strict=True)) for row in rows}
    assert found["FedDC α=0.1"]["rounds-difference"] == pytest.approx(38 / 3 - 97 / 3)
    assert set(found["SCAFFOLD"]) >= {"rounds-difference_low", "rounds-difference_high", "rounds-difference_p"}


def test_csv_of_tables_and_figures(setting: Setting, tmp_path: Path) -> None:
    names = {file.name for file in export_csv([setting], tmp_path / "csv")}
    tables = {f"table-{key}.csv" for key in ("best", "rounds-to-90", "differences")}
    assert names == tables | {"convergence.csv", "drift.csv", "drift-clients.csv", "split.csv", "alpha.csv"}
    with (tmp_path / "csv" / "table-best.csv").open(encoding="utf-8") as file:
        best = {row["method"]: row for row in csv.DictReader(file)}
    assert float(best["SCAFFOLD"]["best"]) == 50.0
    text = dict(score_table(setting).rows)["SCAFFOLD"][0]
    assert text == Entry("50.00 ± 0.00", text.numbers)
    assert float(best["SCAFFOLD"]["best_sd"]) == 0.0


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex: apt-get install texlive-latex-recommended")
@pytest.mark.usefixtures("setting")
def test_it_compiles(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "x", method="feddc:alpha=0.1", split="iid", lr=0.5)
    settings = arrange(collect([tmp_path / "runs"]))
    files = {file.name for file in export_latex(settings, tmp_path / "tex")}
    assert {"report.tex", "overview-1.tex"} <= files
    assert any(name.endswith("convergence-wide.pdf") for name in files)
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"],
        cwd=tmp_path / "tex",
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "tex" / "report.pdf").read_bytes().startswith(b"%PDF")
    assert "undefined" not in done.stdout
    wide = [float(each) for each in re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide", done.stdout)]
    assert max(wide, default=0.0) < 1, done.stdout  # no table sticks out of its column or page


def test_letters_become_smaller_so_that_nothing_sticks_out_of_a_page() -> None:
    """Two columns have a space each beside the letters of their longest entry."""

    def room(letters: int) -> str:
        heading = TableColumn("x", "h", lambda _: Entry(""))
        table = Table("x", "title", (heading,), (("FedAvg", (Entry("9" * (letters - 8)),)),))
        kind, _, rest = tabular(table, "x").partition("[t]\n\\centering")
        return kind.removeprefix("\\begin") + rest.partition("\\setlength")[0]

    fits = {"{table}": 44, "{table*}": 88, "{table*}\\small": 96, "{table*}\\footnotesize": 108}
    fits |= {"{table*}\\scriptsize": 124}
    after = [*list(fits)[1:], "{table*}\\tiny"]
    for (size, most), larger in zip(fits.items(), after, strict=True):
        assert (room(most), room(most + 1)) == (size, larger)
