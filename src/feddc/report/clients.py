"""Scores and costs of single clients, where records have them: the sites of a real federation."""

from __future__ import annotations

from statistics import mean, quantiles
from typing import Any

from ..engine import Record
from .columns import Column, Entry
from .lines import Line, Setting
from .tables import Table
from .units import amount, clock

COLUMNS = {"samples": "samples", "score": "score", "update": "update ‖Δᵢ‖", "drift": "drift ‖hᵢ‖"} | {
    "seconds": "time",
    "moved": "moved",
}


def site_scores(line: Line) -> dict[int, float]:
    """The score of each client, in the last round of the first seed that has any, in the measure's unit."""
    for record in reversed(_records(line)):
        found = {site["client"]: site["score"] for site in _sites(record, line) if site["score"] is not None}
        if found:
            return {client: line.measure.shown(value) for client, value in sorted(found.items())}
    return {}


def strips(setting: Setting) -> list[dict[str, Any]]:
    """For each line whose records score single clients: their scores, the mean, and the mean of the worst tenth."""
    found = []
    for line in setting.lines:
        scores = site_scores(line)
        if scores:
            ranked = sorted(scores.values(), reverse=not line.measure.higher)
            worst = ranked[: max(1, len(ranked) // 10)]
            middle = quantiles(ranked, n=4) if len(ranked) > 1 else ranked * 3
            summary = {"mean": mean(ranked), "worst": mean(worst), "low": middle[0], "high": middle[2]}
            found.append({"label": line.label, "client": list(scores), "score": list(scores.values()), **summary})
    return found


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
    columns = tuple(Column(key, names[key], lambda _: Entry("")) for key in heads)
    rows = tuple(
        (f"site {client}", tuple(_entry(key, site[key], line) for key in heads))
        for client, site in sorted(last.items())
    )
    return Table(f"sites-{line.label}", f"Sites: {line.label}", columns, rows)


def _records(line: Line) -> tuple[Record, ...]:
    return line.drawn[0].records if line.drawn else ()


def _sites(record: Record, line: Line) -> list[dict[str, Any]]:
    return [
        {
            "client": site.client,
            "samples": site.samples,
            "score": (site.measures or {}).get(line.measure.name),
            "update": site.update,
            "drift": site.drift,
            "seconds": site.seconds,
            "moved": site.bytes_up + site.bytes_down,
        }
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
