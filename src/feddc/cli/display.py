"""What the terminal shows: live progress, plain lines where there is no terminal, or JSON; and the closing table."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from ..engine.growth import GrowthWatch, growth_sentence
from ..engine.records import score_in
from ..report.numbers.units import sparkline
from .options import Show

if TYPE_CHECKING:
    from ..engine import Record
    from ..report import tables as report
    from ..report.lines import Setting
    from ..study.runner import Outcome


class Display:
    """Progress over runs: ``plan`` says how many rounds each is expected to take."""

    def __init__(self, plan: Mapping[str, float], show: Show) -> None:
        self.console = Console(quiet=show.quiet or show.as_json, highlight=False)
        self.as_json = show.as_json
        self.plan = dict(plan)
        self.done = dict.fromkeys(self.plan, 0.0)
        """How many of the planned rounds of each run are over, run by us or not to be run any more."""
        self.began = time.monotonic()
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:>4.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[note]}"),
            console=self.console,
            disable=self.console.quiet or not self.console.is_terminal,
        )
        self.tasks: dict[str, TaskID] = {}
        self.before = 0.0
        self._watches: dict[str, Callable[[Record], None]] = {}

    def __enter__(self) -> Display:
        self.progress.start()
        self.began = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True, markup=False)

    def on_record(self, label: str, record: Record) -> None:
        """Show a record of a run that is watched."""
        self._watches[label](record)

    def watch(self, label: str, rounds: int, method: str) -> None:
        """Begin to show a run of this method, which has ``rounds`` rounds at most."""
        self.tasks[label] = self.progress.add_task(label, total=rounds, note="")
        run_began, skipped = time.monotonic(), -1
        every = max(1, rounds // 10)
        seen: list[float] = []
        growth: GrowthWatch | None = GrowthWatch()

        def on_record(record: Record) -> None:
            nonlocal skipped, growth
            if growth is not None and (found := growth.add(record)):
                self.say(f"{label}: {growth_sentence(found, method)}")
                growth = None
            if self.as_json:
                click.echo(json.dumps({"run": label, **asdict(record)}))
            seen.extend([] if record.value is None else [record.value])
            if skipped < 0:  # a run that is continued begins at a later round
                skipped = record.round - 1
                self.plan[label] = max(1.0, self.plan[label] - skipped)
            self.done[label] = min(record.round - skipped, self.plan[label])
            now = time.monotonic()
            done = sum(self.done.values()) - self.before
            left = (sum(self.plan.values()) - self.before - done) * (now - self.began) / max(done, 1.0)
            score = record.score
            shown = "" if record.value is None else f"{score.name} {score.text(record.value):>7}  "
            shown += "" if record.value is None else f"best {score.text(score.best(seen)):>7}  "
            shown += "" if record.loss is None or score.name == "loss" else f"loss {record.loss:.3f}  "
            if record.clients is not None:
                spread = f"sd {score.text(record.clients.std)}, worst tenth {score.text(record.clients.worst)}"
                shown += f"clients {score.text(record.clients.mean)}, {spread}  "
            shown += "" if record.epsilon is None else f"ε {record.epsilon:.2f}  "
            rate = (record.round - skipped) / max(now - run_began, 1e-9)
            note = f"{shown}{rate:.1f} rounds/s  {clock(left)} left"
            room = self.console.width - len(label) - 40 - len(note)  # the bar and the count take 40
            high = 1.0 if score.percent else max(seen, default=1.0)
            curve = "" if room < 10 else "  " + sparkline(seen, 0.0, high, width=min(room - 2, 24))
            self.progress.update(self.tasks[label], completed=record.round, note=note + curve)
            if self.progress.disable and record.round % every == 0:
                self.say(f"{label:<12} round {record.round}/{rounds}  {note}")

        self._watches[label] = on_record

    def finish(self, label: str, outcome: Outcome, *, keep: bool = True) -> None:
        """Say how a run ended, and count the rounds that it will not run any more. Without ``keep`` its bar goes."""
        self.done[label] = self.plan[label]
        if label not in self.tasks:  # it had ended before we began
            self.before += self.plan[label]
        summary = outcome.summary()
        note = "diverged" if outcome.error else f"best {score_in(outcome.records).text(summary['best'])}"
        if summary["rejected"]:
            note += f", {summary['rejected']} updates rejected"
        if label in self.tasks:
            self.progress.update(self.tasks[label], note=note, visible=keep)
        if not keep:
            self.say(f"{label}: {note}, {summary['rounds']} rounds, {clock(summary['seconds'])}")

    def comparison(self, setting: Setting) -> None:
        """A comparison as a table, with each curve in a line."""
        from ..report.tables import compare_table

        scores = [score for run in setting.runs for score in run.scores]
        low, high = min(scores, default=0.0), 1.0 if setting.measure.percent else max(scores, default=1.0)
        curves = [sparkline(line.ran[0].scores if line.ran else [], low, high) for line in setting.lines]
        self.table(compare_table(setting), (setting.measure.name, curves))

    def table(self, table: report.Table, more: tuple[str, Sequence[str]] | None = None) -> None:
        """A table of the report; ``more`` is a last column: its heading and its texts."""
        shown = Table(box=SIMPLE_HEAD, pad_edge=False)
        longest = max((len(label) for label, _ in table.rows), default=0)
        shown.add_column("method", overflow="fold", min_width=min(longest, 20))
        for column in table.columns:
            shown.add_column(column.heading, justify="right", min_width=max(map(len, column.heading.split())))
        if more is not None:
            shown.add_column(more[0], no_wrap=True)
        for i, (label, entries) in enumerate(table.rows):
            cells = [Text(entry.text, "bold" if entry.bold else "") for entry in entries]
            shown.add_row(Text(label), *cells, *([] if more is None else [more[1][i]]))
        self.console.print(shown)


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss, without the hours where there are none."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
