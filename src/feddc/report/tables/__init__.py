"""The tables, as papers print them, with the FedDC paper's numbers beside ours where a run is one of its cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...specs import Spec
from ...study.config import Config
from ..lines import SETTING, Line, Setting, describe, in_words, side_by_side
from . import columns, differences
from .columns import Entry, TableColumn, of_paper

TERMS = {("false", "false"): "loss", ("true", "false"): "loss + penalty", ("false", "true"): "loss + correction"}


@dataclass(frozen=True)
class Table:
    """A title, the columns, and for each row its name and its entries."""

    key: str
    """A name for files."""
    title: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]
    note: str = ""
    first: str = "method"
    """What the rows are."""


def compare_table(setting: Setting) -> Table:
    """A comparison in one table: what the terminal shows when it has ended."""
    target, goal = setting.target, setting.goal
    shown = [
        columns.best(setting),
        columns.last(setting),
        columns.rounds_to(target, f"rounds to {goal}"),
        differences.speedup(setting, target),
        columns.moved_to(target, f"moved to {goal}"),
    ]
    return _table("compare", "Comparison", setting.lines, shown)


def all_tables(setting: Setting) -> list[Table]:
    """The tables of one setting."""
    found = [score_table(setting), *(rounds_table(setting, goal) for goal in goals(setting)), difference_table(setting)]
    return [table for table in (*found, ablation_table(setting)) if table is not None]


def goals(setting: Setting) -> tuple[float, ...]:
    """The targets of a setting: the one that was chosen, or its own and those that the paper has for it.

    Not those above the score at which every run was told to stop: nobody knows when they would have been reached.
    """
    if setting.chosen is not None:
        return (setting.chosen,)
    stops = [run.config.stop_at for run in setting.runs]
    highest = math.inf if None in stops else max((stop for stop in stops if stop is not None), default=math.inf)
    printed = {goal for line in setting.lines for goal in of_paper(line).rounds if goal <= highest}
    return tuple(sorted(printed | {run.config.target for run in setting.runs}))


def rounds_table(setting: Setting, target: float) -> Table:
    """Rounds, speed-up over FedAvg, bytes and seconds to one target."""
    shown = [
        columns.rounds_to(target),
        columns.paper_rounds(target),
        differences.speedup(setting, target),
        columns.moved_to(target),
        columns.time_to(target),
        columns.seeds(),
    ]
    goal = setting.measure.goal(target)
    return _table(f"rounds-to-{goal.replace(' %', '')}", f"Rounds to {goal}", setting.lines, shown)


def score_table(setting: Setting) -> Table:
    """Best and last score, and what a run cost in all."""
    shown = [
        columns.best(setting),
        columns.paper_best(),
        columns.last(setting),
        columns.of_clients(setting, "mean"),
        columns.of_clients(setting, "worst"),
        columns.seeds(),
        columns.rounds_run(),
        columns.epsilon(),
        columns.moved_total(),
        columns.time_total(),
    ]
    both = [(line.runs[0].config.rounds, of_paper(line).budget) for line in setting.lines]
    shorter = [f"The paper ran {printed} rounds, these runs had {had}." for had, printed in both if had < printed]
    note = next(iter(shorter), "")
    return _table("best", f"Best {setting.measure.name}", setting.lines, shown, note)


def difference_table(setting: Setting) -> Table | None:
    """Every line against FedAvg, or the first one, with intervals; None where there is nothing to compare."""
    lines = [line for line in setting.lines if line.ran]
    base = setting.baseline() or (lines[0] if lines else None)
    if base is None or not base.ran or len(lines) < 2 or max(len(line.runs) for line in lines) < 2:
        return None
    judged = [
        columns.best(setting),
        columns.rounds_to(setting.target, f"rounds to {setting.goal}"),
        columns.moved_to(setting.target, f"moved to {setting.goal}"),
    ]
    rest = [line for line in lines if line is not base]
    shown = [differences.difference(setting, base, rest, column) for column in judged]
    note = "95 % interval; p: paired t-test over seeds, corrected for the rows (Holm); bold: p < 0.05."
    return _table("differences", f"Differences from {base.label}", rest, shown, note)


def ablation_table(setting: Setting) -> Table | None:
    """The terms of FedDC's objective, switched off one by one; None unless two variants were run."""
    variants = [line for line in setting.lines if line.name == "feddc" and "server" not in line.options]
    if len({_terms(line) for line in variants}) < 2:
        return None
    base = setting.baseline()
    lines = [*([] if base is None else [base]), *sorted(variants, key=lambda line: len(_terms(line)))]
    objective = TableColumn("objective", "objective", lambda line: Entry("FedAvg" if line is base else _terms(line)))
    shown = [
        objective,
        columns.best(setting),
        columns.paper_best(),
        columns.rounds_to(setting.target, f"rounds to {setting.goal}"),
        columns.seeds(),
    ]
    return _table("ablation", "Ablation: the terms of FedDC", lines, shown)


def overview(settings: Sequence[Setting]) -> list[Table]:
    """Every setting beside the others, for each group of settings: scores, or rounds, speed-up and bytes to targets.

    Runs that stop at a target have no best score worth a table; runs that do not are asked for their target too. A
    group of which nothing was run is left out.
    """
    tables: list[Table] = []
    for group, members in _groups(settings):
        if not any(run.points for setting in members for run in setting.runs):
            continue
        name = f": {group}" if group else ""
        stop = any(run.config.stop_at is not None for setting in members for run in setting.runs)
        measure = members[0].measure
        if not stop:
            beside = _same(columns.paper_best())
            tables.append(_pivot(f"Best {measure.title}{name}", members, columns.best, beside))
        for target in sorted({goal for setting in members for goal in (goals(setting) if stop else [setting.target])}):
            goal = measure.goal(target)
            rounds, beside = _same(columns.rounds_to(target)), _same(columns.paper_rounds(target))
            tables.append(_pivot(f"Rounds to {goal}{name}", members, rounds, beside))
            if stop:
                speedups = _pivot(f"Speed-up over FedAvg, {goal}{name}", members, _speedup(target))
                tables += [speedups] if any(entry.numbers for _, row in speedups.rows for entry in row) else []
                tables.append(_pivot(f"Moved to {goal}{name}", members, _same(columns.moved_to(target))))
    return tables


Make = Callable[[Setting], TableColumn]


def _same(column: TableColumn) -> Make:
    return lambda _: column


def _speedup(target: float) -> Make:
    return lambda setting: differences.speedup(setting, target)


def _table(key: str, title: str, lines: Sequence[Line], shown: Sequence[TableColumn], note: str = "") -> Table:
    """A row for each line, without the columns in which nothing stands."""
    found = [column.entries(lines) for column in shown]
    keep = [i for i, entries in enumerate(found) if any(entry.text for entry in entries)]
    rows = tuple((line.label, tuple(found[i][j] for i in keep)) for j, line in enumerate(lines))
    return Table(key, title, tuple(shown[i] for i in keep), rows, note)


def _pivot(title: str, settings: Sequence[Setting], make: Make, printed: Make | None = None) -> Table:
    """One column of every setting, side by side; the paper's number after a bar."""
    labels = dict.fromkeys(line.label for setting in settings for line in setting.lines)
    places: list[dict[str, Entry]] = []
    heads = []
    for setting in settings:
        entries = make(setting).entries(setting.lines)
        beside = printed(setting).entries(setting.lines) if printed else [Entry("")] * len(entries)
        both = [replace(e, text=f"{e.text} | {b.text}") if b.text else e for e, b in zip(entries, beside, strict=True)]
        places.append({line.label: entry for line, entry in zip(setting.lines, both, strict=True)})
        shown = make(setting)
        heads.append(TableColumn(f"{shown.key}-{setting.title}", setting.title, shown.make, shown.define))
    rows = tuple((label, tuple(place.get(label, Entry("")) for place in places)) for label in labels)
    note = "measured | paper" if any("|" in entry.text for _, row in rows for entry in row) else ""
    return Table(title, title, tuple(heads), rows, note)


def _groups(settings: Sequence[Setting]) -> list[tuple[str, list[Setting]]]:
    """Settings that share a table: they differ in who holds what. Each group's columns are named by what differs."""
    places: dict[tuple[str, object], list[Setting]] = {}
    for setting in settings:
        places.setdefault(_group(setting.config), []).append(setting)
    found = []
    for (name, _), members in places.items():
        configs = [setting.config for setting in members]
        varying = [key for key in SETTING if len({getattr(config, key) for config in configs}) > 1]
        shared = [key for key in SETTING if key not in varying]
        data = [name] if "data" in varying else []
        title = ", ".join(filter(None, [*data, describe(configs[0], shared)]))
        named = [_named(setting, varying) for setting in side_by_side(members)]
        found.append((title, named))
    return found


def _group(config: Config) -> tuple[str, object]:
    return Spec.parse(config.data).name, (config.clients, config.participation, config.cohort_size)


def _named(setting: Setting, varying: Sequence[str]) -> Setting:
    """The setting, named by what differs from its neighbours, without the name that they share."""
    own = replace(setting.config, data=setting.config.data.partition(":")[2] or setting.config.data)
    return replace(setting, title=describe(own, varying) or in_words(setting.config, "split"))


def _terms(line: Line) -> str:
    options = line.options
    switches = (options.get("penalty", "true").lower(), options.get("correction", "true").lower())
    return TERMS.get(switches, "loss + penalty + correction")
