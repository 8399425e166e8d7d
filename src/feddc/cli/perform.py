"""A study on the terminal: how it goes, and what came of it. Every command that runs something ends here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Thread

from ..engine import Record
from ..errors import check
from ..paper.studies import SECTIONS
from ..report import figures, pages, stored
from ..report.lines import arrange, in_words
from ..report.runs import Run, not_run, of_outcome, read
from ..report.tables import overview
from ..specs import Spec
from ..study.cells import Cell, expected_rounds
from ..study.config import Config
from ..study.jobs import Processes
from ..study.runinfo import status
from ..study.runner import Outcome
from ..study.sources import Named
from ..study.study import Listener, Study
from .display import Display, clock
from .options import Show


class Shown(Listener):
    """Shows a study as it goes."""

    def __init__(self, display: Display, kind: str, about: Callable[[], str] = str) -> None:
        self.display, self.kind, self.about = display, kind, about

    def on_start(self, cell: Cell, executor: str) -> None:
        if self.kind != "study" and not self.display.tasks:
            self.display.say(self.about())
            self.display.say(f"executor: {executor}")
        self.display.watch(label(cell, self.kind), cell.config.rounds, cell.config.method)

    def on_record(self, cell: Cell, record: Record) -> None:
        self.display.on_record(label(cell, self.kind), record)

    def on_end(self, cell: Cell, outcome: Outcome) -> None:
        self.display.finish(label(cell, self.kind), outcome, keep=self.kind != "study")


def label(cell: Cell, kind: str) -> str:
    """What a run is called on the terminal."""
    if kind == "study":
        return f"{cell.group}, {cell.column}, {cell.row}, seed {cell.config.seed}"
    return cell.row or Spec.parse(cell.config.method).label


def perform(study: Study, data_dir: Path | None, show: Show, *, fresh: bool = False, jobs: int = 1) -> None:
    """Run what has not ended and show what came of it."""
    if study.kind == "study":
        perform_study(study, data_dir, show, jobs=jobs)
    else:
        perform_comparison(study, data_dir, show, fresh=fresh, jobs=jobs)


def perform_comparison(study: Study, data_dir: Path | None, show: Show, *, fresh: bool, jobs: int) -> None:
    """A run or a comparison: a table, and for a comparison a picture."""
    source, first = Named(data_dir), study.cells[0].config

    def about() -> str:
        return setting_line(first, len(source.federation(first)))

    display = Display({label(cell, study.kind): cell.config.rounds for cell in study.cells}, show)
    if jobs > 1:
        study.check(source, study.left(study.cells))  # which loads the data, so that copies of this process share it
    with Processes(min(jobs, len(study.cells)), fork=True) as processes, display:  # a display has a thread
        if processes.at:
            Thread(target=figures.load, daemon=True).start()
        found = study.run(
            source, Shown(display, study.kind, about), fresh=fresh, processes=processes, tensorboard=show.tensorboard
        )
    [compared] = arrange([of_outcome(outcome) for outcome in found.values()])
    display.comparison(compared)
    errors = [(cell, outcome) for cell, outcome in found.items() if outcome.error]
    if study.kind == "run":
        display.say(f"written to {study.folder}")
        for _, outcome in errors:
            if outcome.kept:
                display.say(f"the checkpoint of round {outcome.kept} is kept in {study.folder / 'checkpoint'}")
    else:
        for cell, outcome in errors:
            display.say(f"{cell.row}: {outcome.error}")
        picture = study.folder / "convergence.png"
        drawn = figures.save_picture(compared, picture)
        display.say((f"picture: {picture}   " if drawn else "") + f"runs: {study.folder}/")
    if len(errors) == len(found) and errors[0][1].error is not None:
        raise errors[0][1].error


def perform_study(study: Study, data_dir: Path | None, show: Show, *, only_stored: bool = False, jobs: int = 1) -> None:
    """A sweep or a reproduction: tables of all of it, pictures, and with a report folder its page."""
    out, report = study.folder, None if study.report is None else Path(study.report)
    file = None if report is None else report / f"{study.stem}.json"
    known = stored.load(file) if file is not None and file.exists() else {}
    here = {cell.key: run for cell in study.cells if (run := _begun(study.place(cell))) is not None}
    fresh = {key: run for key, run in here.items() if _replaces(run, known.get(key), only_stored)}
    runs = {cell.key: known[cell.key] for cell in study.cells if cell.key in known} | fresh
    check(
        bool(runs) or not only_stored, f"{file} and {out} have no result of these cells: leave --stored out to run them"
    )
    todo = [] if only_stored else [cell for cell in study.cells if cell.key not in runs or not runs[cell.key].ended]
    display = Display({label(cell, study.kind): expected_rounds(cell) for cell in todo}, show)
    if todo:
        source = Named(data_dir)
        likely, most = (clock(each / min(jobs, len(todo))) for each in study.estimate(source, todo))
        display.say(f"{len(todo)} of {len(study.cells)} cells to run: about {likely}, at most {most}, on this machine")
        with Processes(min(jobs, len(todo)), fork=True) as processes, display:
            shown_in = Shown(display, study.kind)
            found = study.run(source, shown_in, cells=todo, processes=processes, tensorboard=show.tensorboard)
        fresh |= {cell.key: read(study.place(cell)) for cell in found}
        runs |= fresh
    if report is not None and file is not None:
        report.mkdir(parents=True, exist_ok=True)
        if fresh:
            stored.save(file, fresh)
        runs = stored.load(file)  # so that the page is the one that --stored makes of it
    shown = [runs.get(cell.key) or not_run(cell.config) for cell in _worth_showing(study.cells, runs)]
    settings = arrange(shown)
    for table in overview(settings):
        display.say(f"{table.title}{f' ({table.note})' if table.note else ''}")
        display.table(table)
    for note in pages.misprints(settings):
        display.say(f"note: the paper: {note}")
    own = SECTIONS[study.stem](_scores(study, runs)) if study.stem in SECTIONS else None
    if own is not None:
        display.say(own.text())
    if report is not None:
        display.say(f"page: {pages.page(report, study.stem, shown, study.command, own.markdown() if own else '')}")
    elif runs:
        for _, name in pages.pictures(out, study.stem, settings):
            display.say(f"picture: {out / name}")


def _scores(study: Study, runs: Mapping[str, Run]) -> dict[str, list[list[float]]]:
    """For each row of a study, a list for each seed: the last score, then each client's own."""
    found: dict[str, list[list[float]]] = {}
    for cell in study.cells:
        run = runs.get(cell.key)
        values = [] if run is None or not run.ended or not run.scores else [run.scores[-1], *run.clients]
        if values and None not in values:
            found.setdefault(cell.row, []).append([float(value or 0) for value in values])
    return found


def _worth_showing(cells: Sequence[Cell], runs: Mapping[str, Run]) -> list[Cell]:
    """A method in the precisions in which some cell of it was run, or else in the first that was asked for."""
    ran: dict[tuple[str, str], set[str]] = {}
    first: dict[tuple[str, str], str] = {}
    for cell in cells:
        key = cell.group, cell.config.method
        first.setdefault(key, cell.config.precision)
        if cell.key in runs:
            ran.setdefault(key, set()).add(cell.config.precision)
    return [
        cell
        for cell in cells
        if cell.config.precision in ran.get(key := (cell.group, cell.config.method), {first[key]})
    ]


def _begun(place: Path) -> Run | None:
    """The run in this directory, as far as it has come, if it has run a round or ended without one."""
    if status(place) not in ("ended", "under way") or not (place / "records.jsonl").is_file():
        return None
    run = read(place)
    return run if run.points else None


def _replaces(run: Run, known: Run | None, only_stored: bool) -> bool:
    """Whether a run in --out takes the place of the stored one. With --stored it takes no place of one that ended."""
    if known is None:
        return True
    if known.ended:
        return run.ended and not only_stored
    return run.ended or run.done > known.done


def setting_line(config: Config, clients: int) -> str:
    """The setting in one line; data that comes with its clients decides how many there are."""
    who = in_words(config, "cohort_size") or in_words(config, "participation")
    return (
        f"{config.data}, {clients} clients, {config.split or 'natural split'}, {who}, {config.model}, "
        f"{config.rounds} rounds, {config.epochs} local epochs, batch {config.batch_size or 'full'}, "
        f"lr {config.rates or f'{config.lr:g}×{config.lr_decay:g}'}, seed {config.seed}"
    )
