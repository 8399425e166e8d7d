r"""Tables as LaTeX with booktabs, ready for \input, and a document that shows them with the figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from . import Table
from .columns import Entry

_SPECIAL = {
    **{each: f"\\{each}" for each in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$\\mid$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "–": "--",
    "−": "$-$",
    **{
        letter: f"$\\{name}$"
        for letter, name in zip(
            "αβγηθλμρσω",
            ("alpha", "beta", "gamma", "eta", "theta", "lambda", "mu", "rho", "sigma", "omega"),
            strict=True,
        )
    },
}
_NUMBER = re.compile(r"[+−-]?\d[\d.]*(?:e-?\d+)?(?: ± \d[\d.]*)?|[<>]\d[\d.]*")
ONE_COLUMN = 44
SIZES = {"": 88, r"\small": 96, r"\footnotesize": 108, r"\scriptsize": 124}
"""How many letters of each size fit across a page of two columns."""
CAPTION = (
    "Mean ± standard deviation over seeds; >N: not reached in N rounds; "
    "bold: ahead of all others (paired t-tests over seeds, Holm-corrected, p < 0.05)."
)


def tabular(table: Table, label: str) -> str:
    """A table environment with its caption."""
    words = (table.title, CAPTION if table.key != "differences" else "", table.note)
    caption = " ".join(escape(text if text.endswith(".") else f"{text}.") for text in words if text)
    heads = ["", *(escape(column.heading) for column in table.columns)]
    rows = [[escape(name), *(_entry(entry) for entry in entries)] for name, entries in table.rows]
    lines = [" & ".join(row) + r" \\" for row in (heads, *rows)]
    kind, size = _room(table)
    return "\n".join(
        [
            f"\\begin{{{kind}}}[t]",
            rf"\centering{size}\setlength{{\tabcolsep}}{{4pt}}",
            f"\\caption{{{caption}}}",
            f"\\label{{tab:{re.sub(r'[^A-Za-z0-9.-]+', '-', label)}}}",
            f"\\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
            f"\\end{{{kind}}}",
            "",
        ]
    )


def _room(table: Table) -> tuple[str, str]:
    """One column or both, and the size of letters, by the letters of the longest row: nothing sticks out of a page."""
    texts = [("", *(column.heading for column in table.columns))]
    texts += [(name, *(max(_parts(entry), key=len) for entry in entries)) for name, entries in table.rows]
    letters = sum(max(map(len, column)) + 1 for column in zip(*texts, strict=True))
    if letters <= ONE_COLUMN:
        return "table", ""
    return "table*", next((size for size, most in SIZES.items() if letters <= most), r"\tiny")


def document(tables: Sequence[str], figures: Iterable[tuple[str, bool]]) -> str:
    """A document that shows the files beside it, to copy from. Figures are (name, over both columns)."""
    parts = [f"\\input{{{name}}}" for name in tables]
    for name, wide in figures:
        kind, width = ("figure*", r"\textwidth") if wide else ("figure", r"\columnwidth")
        parts.append(f"\\begin{{{kind}}}[t]\\centering\\includegraphics[width={width}]{{{name}}}\\end{{{kind}}}")
    head = [
        r"\documentclass[twocolumn]{article}",
        r"\usepackage[utf8]{inputenc}",
        r"\usepackage[T1]{fontenc}",
        r"\usepackage{booktabs,graphicx}",
        r"\begin{document}",
    ]
    return "\n".join([*head, *(part for each in parts for part in (each, r"\clearpage")), r"\end{document}", ""])


def escape(text: str) -> str:
    """Text that LaTeX prints as it is; a letter that its fonts lack becomes a question mark."""
    return "".join(_SPECIAL.get(each, each if ord(each) < 0x180 else "?") for each in text)


def _parts(entry: Entry) -> list[str]:
    """The lines of an entry: an interval, and below it the test."""
    interval, comma, test = entry.text.partition(", p = ")
    return [interval, f"p = {test}"] if comma else [entry.text]


def _entry(entry: Entry) -> str:
    """Its lines, one above the other; bold where the table is."""
    lines = [f"\\textbf{{\\boldmath {text}}}" if entry.bold else text for text in map(_set, _parts(entry))]
    return lines[0] if len(lines) == 1 else r"\shortstack[r]{" + r" \\ ".join(lines) + "}"


def _set(text: str) -> str:
    """Numbers in math, so that minus and ± are set as such."""
    parts, end = [], 0
    for found in _NUMBER.finditer(text):
        parts += [escape(text[end : found.start()]), "$" + found.group().replace("±", r"\pm").replace("−", "-") + "$"]
        end = found.end()
    return "".join([*parts, escape(text[end:])]).replace("$$", "")  # neighbours in math are one formula
