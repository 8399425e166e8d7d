"""What the terminal shows: live progress, plain lines where there is no terminal, and the closing table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table

if TYPE_CHECKING:
    from ..engine import Record
    from ..experiment.config import Config
    from ..experiment.runner import Outcome


class Display:
    """Progress over one or more runs of ``rounds`` rounds each."""

    def __init__(self, labels: Sequence[str], rounds: int, quiet: bool) -> None:
        self.console = Console(quiet=quiet, highlight=False)
        self.labels, self.rounds = list(labels), rounds
        self.done, self.began = 0, time.monotonic()
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:>4.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[note]}"),
            console=self.console,
            disable=quiet or not self.console.is_terminal,
        )
        self.tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Display:
        self.progress.start()
        for label in self.labels:
            self.tasks[label] = self.progress.add_task(label, total=self.rounds, note="")
        self.began = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True, markup=False)

    def watch(self, label: str) -> Callable[[Record], None]:
        """What to call with every record of that run."""
        best = 0.0
        every = max(1, self.rounds // 10)

        def on_record(record: Record) -> None:
            nonlocal best
            self.done += 1
            best = max(best, record.accuracy or 0.0)
            rate = self.done / max(time.monotonic() - self.began, 1e-9)
            left = (self.rounds * len(self.labels) - self.done) / rate
            accuracy = "" if record.accuracy is None else f"accuracy {record.accuracy:6.2%}  best {best:6.2%}  "
            note = f"{accuracy}{rate:.1f} rounds/s  {_clock(left)} left"
            self.progress.update(self.tasks[label], completed=record.round, note=note)
            if self.progress.disable and record.round % every == 0:
                self.say(f"{label:<12} round {record.round}/{self.rounds}  {note}")

        return on_record

    def finish(self, label: str, outcome: Outcome) -> None:
        """Say how a run ended, and count the rounds that it will not run any more."""
        self.done += self.rounds - len(outcome.records)
        note = "diverged" if outcome.error else f"best {outcome.summary()['best_accuracy'] or 0:.2%}"
        self.progress.update(self.tasks[label], note=note)

    def table(self, outcomes: Sequence[tuple[str, Outcome]], config: Config) -> None:
        """The comparison as a table, with a note for every run that diverged."""
        from ..report.tables import compare

        goal = f"{100 * config.target:g} %"
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        table.add_column("method", overflow="fold")
        for name in ("best", "last 10", f"rounds\nto {goal}", "speed-up", f"MB to\n{goal}"):
            table.add_column(name, justify="right", no_wrap=True, min_width=len(name.rpartition("\n")[2]))
        table.add_column("accuracy", no_wrap=True)
        runs = [(label, outcome.records) for label, outcome in outcomes]
        for row in compare(runs, config.target, config.rounds):
            style = "bold" if row.method.startswith("feddc") else None
            cells = (row.method, row.best, row.last, row.rounds, row.speedup, row.megabytes, row.curve)
            table.add_row(*cells, style=style)
        self.console.print(table)
        for label, outcome in outcomes:
            if outcome.error and len(outcomes) > 1:  # a single run ends with its error
                self.say(f"{label}: {outcome.error}")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
