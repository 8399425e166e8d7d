"""Results as small files that can be committed, and as pages made from them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..engine import Record
from ..errors import RunError
from ..paper.published import MISPRINTS
from ..study.cells import Cell
from ..study.rundir import write_whole
from .figures import convergence
from .study import grids, markdown


def save(path: Path, cells: Sequence[Cell], runs: Mapping[Cell, Sequence[Record]]) -> None:
    """Write the runs of these cells, added to what the file has already."""
    content: dict[str, Any] = _read(path) if path.exists() else {}
    content |= {cell.key: _pack(cell, runs[cell]) for cell in cells if cell in runs}
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(content[key])}" for key in sorted(content))
    write_whole(path, "{\n" + lines + "\n}\n")


def load(path: Path, cells: Sequence[Cell]) -> dict[Cell, tuple[Record, ...]]:
    """The runs of these cells that the file has."""
    content = _read(path)
    return {cell: _unpack(content[cell.key]) for cell in cells if cell.key in content}


def page(folder: Path, stem: str, cells: Sequence[Cell], runs: Mapping[Cell, Sequence[Record]], command: str) -> Path:
    """Write ``stem.md`` with the tables, a picture for each group that was run, and the notes on misprints."""
    parts = [f"# {stem}\n", f"Made by `{command}` from `{stem}.json`.\n"]
    parts += [markdown(grid) for grid in grids(cells, runs)]
    parts += [f"- {note}.\n" for note in notes(cells)]
    parts += [f"![{title}]({file})\n" for title, file in pictures(folder, stem, cells, runs)]
    write_whole(folder / f"{stem}.md", "\n".join(parts))
    return folder / f"{stem}.md"


def notes(cells: Sequence[Cell]) -> list[str]:
    """Where the paper contradicts itself on what these cells compare with."""
    names = dict.fromkeys(cell.config.data.partition(":")[0] for cell in cells if any(cell.published))
    return [f"the paper: {note}" for name in names for note in MISPRINTS.get(name, [])]


def pictures(
    folder: Path, stem: str, cells: Sequence[Cell], runs: Mapping[Cell, Sequence[Record]]
) -> list[tuple[str, str]]:
    """A convergence picture for each group and column of which something was run: its title and file name."""
    made = []
    for place in dict.fromkeys((cell.group, cell.column) for cell in cells if cell in runs):
        members = [cell for cell in cells if (cell.group, cell.column) == place and cell in runs]
        rows = dict.fromkeys(cell.row for cell in members)
        lines = [(row, mean_curve([runs[cell] for cell in members if cell.row == row])) for row in rows]
        seeds = len({cell.config.seed for cell in members})
        title = f"{place[0]}, {place[1]}" + (f", mean of {seeds} seeds" if seeds > 1 else "")
        file = "".join(c if c.isalnum() else "-" for c in f"{stem}-{title}").replace("--", "-").strip("-") + ".png"
        convergence(lines, members[0].config.target, title, folder / file)
        made.append((title, file))
    return made


def mean_curve(runs: Sequence[Sequence[Record]]) -> list[Record]:
    """The runs of several seeds as one: mean accuracy and bytes of every round that all of them have."""
    curve = []
    for rounds in zip(*runs, strict=False):
        known = [record.accuracy for record in rounds if record.accuracy is not None]
        accuracy = sum(known) / len(known) if len(known) == len(rounds) else None
        moved = sum(record.bytes_up + record.bytes_down for record in rounds) // len(rounds)
        metrics = {} if accuracy is None else {"accuracy": accuracy}
        curve.append(Record(rounds[0].round, metrics, (), moved, 0, 0.0))
    return curve


def _pack(cell: Cell, records: Sequence[Record]) -> dict[str, Any]:
    return {
        "config": {key: value for key, value in asdict(cell.config).items() if value is not None},
        "accuracy": [None if r.accuracy is None else round(r.accuracy, 5) for r in records],
        "kilobytes": [round((r.bytes_up + r.bytes_down) / 1e3) for r in records],
        "seconds": round(sum(r.seconds for r in records), 1),
    }


def _unpack(packed: Mapping[str, Any]) -> tuple[Record, ...]:
    pairs = zip(packed["accuracy"], packed["kilobytes"], strict=True)
    return tuple(
        Record(i + 1, {} if accuracy is None else {"accuracy": accuracy}, (), moved * 1000, 0, 0.0)
        for i, (accuracy, moved) in enumerate(pairs)
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise RunError(f"{path} is not a file of results: {error}") from None
    if not isinstance(content, dict):
        raise RunError(f"{path} is not a file of results")
    return content
