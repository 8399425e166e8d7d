"""`feddc reproduce` and `feddc sweep`: many runs, one after another, none of them twice."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import ConfigError, check
from .data import data_dir_option
from .options import Command, Show, configurations, experiment_options, gather, output_options

if TYPE_CHECKING:
    from ..study.cells import Cell


def _listed(name: str, help: str) -> Callable[[Command], Command]:
    return click.option(name, metavar="A,B,…", help=help)


@click.command()
@click.argument("study", required=False)
@_listed("--data", "only these data sets")
@_listed("--split", "only these splits: iid, d1, d2, unbalanced; for synthetic 0-0, 1-0, 0-1")
@_listed("--clients", "only these numbers of clients")
@_listed("--participation", "only these: 0.15, 1")
@_listed("--methods", "only these rows")
@click.option("--seeds", default="0", metavar="A,B,…", help="seeds to repeat each cell with  [default: 0]")
@click.option("--rounds", type=click.IntRange(1), help="fewer rounds than the paper's")
@click.option("--weights", type=click.Path(path_type=Path), help="ImageNet weights for tiny-imagenet's ResNet18")
@click.option("--workers", type=click.IntRange(1), help="worker processes  [default: one for each core]")
@click.option("--list", "only_list", is_flag=True, help="show the cells, run nothing")
@click.option("--stored", is_flag=True, help="run nothing: use the results that --report has stored before")
@click.option("--report", type=click.Path(path_type=Path), help="folder for a page, its pictures and its data")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/reproduce"), help="folder for the cells")
@click.option("--quiet", is_flag=True, help="print nothing but errors")
@data_dir_option
def reproduce(
    study: str | None,
    seeds: str,
    rounds: int | None,
    weights: Path | None,
    workers: int | None,
    only_list: bool,
    stored: bool,
    report: Path | None,
    out: Path,
    quiet: bool,
    data_dir: Path | None,
    **narrow: str | None,
) -> None:
    """Run a table or figure of the FedDC paper, or part of it, beside the published numbers.

    Without a STUDY it lists them. A finished cell is never run again, so the command can be stopped and repeated.
    """
    from ..paper.studies import STUDIES, Selection, select

    if study is None:
        for name, cells in STUDIES.items():
            click.echo(f"{name:<14} {cells.__doc__ or ''} {sum(1 for _ in cells())} cells.")
        return
    check(not stored or report is not None, "--stored needs --report, the folder with the results")
    chosen = {key: value.split(",") if value else None for key, value in narrow.items()}
    selected = select(study, Selection(**chosen, seeds=_seeds(seeds), rounds=rounds))
    if weights is not None:
        check(study == "tiny-imagenet", "--weights goes with the study tiny-imagenet")
        selected = [_with(each, model=f"resnet18:weights={weights}") for each in selected]
    if workers is not None:
        selected = [_with(each, workers=workers) for each in selected]
    if only_list:
        for each in selected:
            click.echo(
                f"{each.group}, {each.column}, {each.row}, seed {each.config.seed}, {each.config.rounds} rounds at most"
            )
        return
    stem = "-".join([study, *(chosen["data"] or [])])
    said = {**narrow, "seeds": seeds, "rounds": rounds, "report": report}
    command = " ".join([f"feddc reproduce {study}", *(f"--{key} {value}" for key, value in said.items() if value)])
    run_study(stem, selected, out, report, Show(quiet), data_dir, stored, command)


@click.command()
@click.option(
    "--over", multiple=True, metavar="KEY=A,B,…", required=True, help="an option and its values; may be repeated"
)
@experiment_options(without="")
@output_options
def sweep(
    over: tuple[str, ...],
    out: Path | None,
    config: Path | None,
    data_dir: Path | None,
    quiet: bool,
    as_json: bool,
    tensorboard: bool,
    **given: Any,
) -> None:
    """Run every combination of some options: feddc sweep --over alpha=0.01,0.1,1 --over seed=0,1,2

    A finished run is never run again, so the command can be stopped and repeated with the same --out.
    """
    from ..study.cells import Cell

    axes = [_axis(text) for text in over]
    check(len({key for key, _ in axes}) == len(axes), "--over names an option twice")
    values = gather(given, config)
    cells = []
    for combination in itertools.product(*(choices for _, choices in axes)):
        setting = dict(zip((key for key, _ in axes), combination, strict=True))
        merged = {**values, **setting}
        method = str(merged.pop("method", "feddc"))
        [resolved] = configurations(merged, [method])
        row = ", ".join(f"{key}={value}" for key, value in setting.items() if key != "seed") or "all"
        cells.append(Cell(f"{resolved.data}", row, "best", resolved, published=(None,)))
    show = Show(quiet, as_json, tensorboard)
    run_study("sweep", cells, out or Path("runs/sweep"), None, show, data_dir, only_stored=False)


def run_study(
    stem: str,
    cells: Sequence[Cell],
    out: Path,
    report: Path | None,
    show: Show,
    data_dir: Path | None,
    only_stored: bool,
    command: str = "feddc reproduce",
) -> None:
    """Run what is not finished, then show tables and pictures of all of it."""
    from ..report import pages, stored
    from ..report.lines import arrange
    from ..report.runs import Run, not_run, of_outcome, read
    from ..report.tables import overview
    from ..study.cells import Shared, check_all, expected_rounds, run_cell, seconds_a_round
    from ..study.plan import Plan
    from ..study.runinfo import status
    from ..study.trackers import require_tensorboard
    from .display import Display, clock

    places: dict[str, Cell] = {}
    for cell in cells:
        twin = places.setdefault(cell.key, cell)
        same = f"{twin.row}, seed {twin.config.seed}, and {cell.row}, seed {cell.config.seed}"
        check(twin is cell, f"two of the runs are the same one: {same}")
    file = None if report is None else report / f"{stem}.json"
    known = stored.load(file) if file is not None and file.exists() else {}
    runs: dict[str, Run] = {cell.key: known[cell.key] for cell in cells if cell.key in known}
    runs |= {cell.key: read(out / cell.key) for cell in cells if status(out / cell.key) == "ended"}
    check(
        bool(runs) or not only_stored, f"{file} and {out} have no result of these cells: leave --stored out to run them"
    )
    todo = [] if only_stored else [cell for cell in cells if cell.key not in runs]
    labels = {cell: f"{cell.group}, {cell.column}, {cell.row}, seed {cell.config.seed}" for cell in todo}
    display = Display({labels[cell]: expected_rounds(cell) for cell in todo}, show)
    if todo:
        shared = Shared(data_dir)
        check_all(todo, shared)
        cost: dict[Any, float] = {}
        for cell in todo:
            kind = (cell.config.data, cell.config.model, cell.config.clients, cell.config.participation)
            cost[kind] = cost.get(kind) or seconds_a_round(cell.config, shared)
        estimates = [cost[(c.config.data, c.config.model, c.config.clients, c.config.participation)] for c in todo]
        likely = sum(each * expected_rounds(cell) for each, cell in zip(estimates, todo, strict=True))
        most = sum(each * cell.config.rounds for each, cell in zip(estimates, todo, strict=True))
        display.say(
            f"{len(todo)} of {len(cells)} cells to run: about {clock(likely)}, at most {clock(most)}, on this machine"
        )
        if show.tensorboard:
            require_tensorboard()
        out.mkdir(parents=True, exist_ok=True)
        plan = Plan("study", stem, tuple(cells), None if report is None else str(report)).write(out)
        with display:
            for cell in todo:
                watch = display.watch(labels[cell], cell.config.rounds)
                outcome = run_cell(cell, shared, out, watch, tensorboard=show.tensorboard)
                runs[cell.key] = of_outcome(outcome)
                display.finish(labels[cell], outcome, keep=False)
        plan.unlink()
    shown = [runs.get(cell.key) or not_run(cell.config) for cell in cells]
    settings = arrange(shown)
    for table in overview(settings):
        display.say(f"{table.title}{f' ({table.note})' if table.note else ''}")
        display.table(table)
    for note in pages.misprints(settings):
        display.say(f"note: the paper: {note}")
    if report is not None and file is not None:
        report.mkdir(parents=True, exist_ok=True)
        stored.save(file, runs)
        display.say(f"page: {pages.page(report, stem, shown, command)}")
    elif runs:
        for _, name in pages.pictures(out, stem, settings):
            display.say(f"picture: {out / name}")


def _with(cell: Cell, **changes: Any) -> Cell:
    return replace(cell, config=replace(cell.config, **changes))


def _seeds(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise ConfigError(f"seeds must be whole numbers with commas between, not '{text}'") from None


def _axis(text: str) -> tuple[str, list[str]]:
    key, equals, values = text.partition("=")
    if not equals or not values:
        raise ConfigError(f"--over takes KEY=A,B,… such as alpha=0.01,0.1, not '{text}'")
    return key.strip().replace("-", "_"), [each.strip() for each in values.split(",")]
