"""A study's page in Markdown: the tables of all its settings beside each other, and a picture of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..paper.history import MOVED
from ..paper.published import MISPRINTS
from ..specs import Spec
from ..storage.atomic import write_whole
from ..storage.lock import alone
from .figures import save_picture
from .figures.dots import save_dots
from .lines import Line, Setting, arrange, describe, said, varying
from .numbers.units import markdown_table
from .runs import Run
from .tables import Table, all_tables, overview
from .tables.columns import of_paper

CROWD = 12
"""More lines than this cannot be told apart in one picture, and are compared with each other, not with the paper."""


def page(folder: Path, stem: str, runs: Sequence[Run], command: str, section: str = "") -> Path:
    """Write ``stem.md``: tables, the study's own section, notes on misprints, a picture for each setting that ran."""
    settings = arrange(runs)
    parts = [f"# {stem}\n", f"Made by `{command}` from `{stem}.json`.\n"]
    beside = [each for each in settings if any(map(_printed, each.lines)) and len(each.lines) <= CROWD]
    parts += [markdown(table) for table in overview(beside)]
    parts += [markdown(table) for each in settings if each not in beside for table in _whole(each)]
    parts += [section] if section else []
    parts += [f"- The paper: {note}.\n" for note in misprints(settings)]
    parts += [f"![{title}]({file})\n" for title, file in pictures(folder, stem, settings)]
    parts.append(origins(runs))
    with alone(folder / f"{stem}.md"):
        write_whole(folder / f"{stem}.md", "\n".join(parts))
    return folder / f"{stem}.md"


def markdown(table: Table) -> str:
    """The table as Markdown."""
    note = f" ({table.note.replace('|', '/')})" if table.note else ""
    rows = []
    for label, entries in table.rows:
        cells = [f"**{entry.text}**" if entry.bold else entry.text for entry in entries]
        rows.append([label, *(cell.replace("|", "/") for cell in cells)])
    return f"**{table.title}**{note}\n\n" + markdown_table(["", *(each.heading for each in table.columns)], rows)


def _printed(line: Line) -> bool:
    return bool(of_paper(line).rounds or of_paper(line).accuracy)


def _whole(setting: Setting) -> list[Table]:
    """All that there is to say of a setting of which the paper has nothing, named."""
    return [replace(each, title=f"{each.title}: {describe(setting.config)}") for each in all_tables(setting)]


def origins(runs: Sequence[Run]) -> str:
    """Which commit ran each run, how far, and with what; and what has changed since that moves the last bits."""
    rows, ran = [], [run for run in runs if run.points]
    for run in ran:
        config, made = run.config, run.about.get("versions", {})
        rounds = f"{run.done}{'' if run.status == 'finished' else f', {run.status}'}"
        tools = f"torch {made['torch']}, {made['processor']}" if {"torch", "processor"} <= set(made) else "not recorded"
        alike = [each for each in ran if describe(each.config) == describe(config)]
        extra = [(name, getattr(config, name)) for name in varying(alike) if name != "precision"]
        method = ", ".join([config.method, *said(extra)])
        where = [describe(config), method, str(config.seed), rounds]
        rows.append([*where, made.get("commit", "not recorded"), config.precision, tools])
    notes = dict.fromkeys(MOVED[commit] for run in ran if (commit := _commit(run)) in MOVED)
    table = markdown_table(["setting", "method", "seed", "rounds", "commit", "precision", "made with"], rows)
    return f"## Where each run comes from\n\n{table}" + "".join(f"\n{note}\n" for note in notes)


def _commit(run: Run) -> str:
    return str(run.about.get("versions", {}).get("commit", "")).removeprefix("at or before ").rstrip("+")


def misprints(settings: Sequence[Setting]) -> list[str]:
    """Where the paper contradicts itself on what these settings are compared with."""
    names = dict.fromkeys(
        Spec.parse(setting.config.data).name for setting in settings if any(map(_printed, setting.lines))
    )
    return [note for name in names for note in MISPRINTS.get(name, [])]


def pictures(folder: Path, stem: str, settings: Sequence[Setting]) -> list[tuple[str, str]]:
    """A picture for each setting of which something was run: its title and file name.

    Convergence curves, or, where they would be too many to be told apart, a row of dots for each method.
    """
    made = []
    for setting in settings:
        title = describe(setting.config)
        name = f"{stem}-{re.sub(r'[^A-Za-z0-9.=]+', '-', title).strip('-')}"
        draw, file = (save_dots, f"{name}-dots.png") if len(setting.lines) > CROWD else (save_picture, f"{name}.png")
        if draw(setting, folder / file):
            made.append((title, file))
    return made
