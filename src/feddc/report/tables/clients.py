"""Scores and costs of single clients, where records have them: held-out samples, and sites of a real federation."""

from __future__ import annotations

import re
from typing import Any

from ...engine.records import ClientScores, Record
from ..lines import Line, Setting
from ..numbers.units import amount, clock
from . import Table
from .columns import Entry, TableColumn

COLUMNS = {"samples": "samples", "score": "score", "update": "update ‖Δᵢ‖", "drift": "drift ‖hᵢ‖"}
COLUMNS |= {"seconds": "time", "moved": "moved"}


def strips(setting: Setting) -> list[dict[str, Any]]:
    """For each line whose records score single clients: their scores, the mean, and the mean of the worst tenth.

    Of the first seed, in the last round that was scored there: the global model, and each client's own one.
    """
    found = []
    for line in setting.lines:
        for kind, scores in (("", scores_in(line)), (", personal", scores_in(line, "personal"))):
            if scores is not None:
                known = {i: line.measure.shown(each) for i, each in enumerate(scores.scores) if each is not None}
                points = {"client": list(known), "score": [round(each, 4) for each in known.values()]}
                summary = {"mean": line.measure.shown(scores.mean), "worst": line.measure.shown(scores.worst)}
                found.append({"label": f"{line.label}{kind}", "line": line.label, **points, **summary})
    return found


def scores_in(line: Line, kind: str = "clients") -> ClientScores | None:
    """The last scores of single clients in the first seed's records, or in what its sites reported."""
    for record in reversed(_records(line)):
        found: ClientScores | None = getattr(record, kind) or (_of_sites(record) if kind == "clients" else None)
        if found is not None:
            return found
    return None


def _of_sites(record: Record) -> ClientScores | None:
    known = {site.client: (site.measures or {}).get(record.score.name) for site in record.sites}
    return ClientScores.of([known.get(i) for i in range(max(known) + 1)], record.score) if known else None


def site_table(line: Line) -> Table | None:
    """The members of a real federation: what each has, and what it cost, over the rounds of the first seed."""
    last: dict[int, dict[str, Any]] = {}
    for record in _records(line):
        for site in _sites(record, line):
            old = last.setdefault(site["client"], {**site, "moved": 0, "seconds": 0.0})
            known = {key: value for key, value in site.items() if value is not None}
            spent = {"moved": old["moved"] + site["moved"], "seconds": old["seconds"] + (site["seconds"] or 0.0)}
            last[site["client"]] = old | known | spent
    if not last:
        return None
    heads = [key for key in COLUMNS if any(site[key] is not None for site in last.values())]
    names = COLUMNS | {"score": line.measure.title}
    columns = tuple(TableColumn(key, names[key], lambda _: Entry("")) for key in heads)
    rows = tuple(
        (str(client), tuple(_entry(key, site[key], line) for key in heads)) for client, site in sorted(last.items())
    )
    key = re.sub(r"[^A-Za-z0-9.=]+", "-", f"sites-{line.label}").strip("-")
    return Table(key, f"Sites: {line.label}", columns, rows, first="site")


def _records(line: Line) -> tuple[Record, ...]:
    return line.drawn[0].records if line.drawn else ()


def _sites(record: Record, line: Line) -> list[dict[str, Any]]:
    own = line.measure.name
    return [
        {**vars(site), "score": (site.measures or {}).get(own), "moved": site.bytes_up + site.bytes_down}
        for site in record.sites
    ]


def _entry(key: str, value: Any, line: Line) -> Entry:
    if value is None:
        return Entry("–")
    if key == "score":
        value = line.measure.shown(value)
        return Entry(f"{value:.{line.measure.digits}f}", {"mean": value})
    shown = {"moved": amount, "seconds": clock}.get(key, lambda each: f"{each:.4g}")
    return Entry(shown(value), {"mean": value})
