"""`feddc reproduce` and `feddc sweep`: many runs, one after another, none of them twice."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import ConfigError, check
from .data import data_dir_option
from .options import (
    Command,
    Output,
    Show,
    configurations,
    experiment_options,
    gather,
    jobs_option,
    output_options,
    typed,
    whole_numbers,
)

if TYPE_CHECKING:
    from ..study.cells import Cell


def _listed(name: str, help: str) -> Callable[[Command], Command]:
    return click.option(name, metavar="A,B,…", help=help)


@click.command()
@click.argument("study", required=False)
@_listed("--data", "only these data sets")
@_listed("--split", "only these splits: iid, d1, d2, unbalanced; for synthetic 0-0, 1-0, 0-1")
@_listed("--clients", "only these numbers of clients")
@_listed("--participation", "only these participation rates: 0.15, 1")
@_listed("--methods", "only these methods (rows)")
@click.option("--seeds", default="0", metavar="A,B,…", help="seeds to repeat each cell with  [default: 0]")
@click.option("--rounds", type=click.IntRange(1), help="run fewer rounds than the paper")
@click.option("--target", type=float, help="stop at this target instead of at the data set's highest, such as 0.8")
@_listed("--precision", "precision of a local step's products; of several, each is a row of its own")
@click.option("--weights", type=click.Path(path_type=Path), help="ImageNet weights for tiny-imagenet's ResNet18")
@click.option("--workers", type=click.IntRange(1), help="worker processes  [default: one for each core]")
@click.option("--list", "only_list", is_flag=True, help="show the cells, run nothing")
@click.option(
    "--stored",
    is_flag=True,
    help="run nothing: use the results that --report has stored before; runs in --out add only what is not over there",
)
@click.option("--report", type=click.Path(path_type=Path), help="folder for a page, its pictures and its data")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/reproduce"), help="folder for the cells")
@click.option("--quiet", is_flag=True, help="print nothing but errors")
@jobs_option
@data_dir_option
def reproduce(
    study: str | None,
    jobs: int,
    only_list: bool,
    stored: bool,
    report: Path | None,
    out: Path,
    quiet: bool,
    data_dir: Path | None,
    **asked: Any,
) -> None:
    """Run a table or figure of the FedDC paper, or part of it, beside the published numbers.

    Without a STUDY it lists them. A finished cell is never run again, so the command can be stopped and repeated.
    """
    from ..paper.studies import STUDIES

    if study is None:
        for name, cells in STUDIES.items():
            click.echo(f"{name:<14} {cells.__doc__ or ''} {sum(1 for _ in cells())} cells.")
        click.echo(f"{'summary':<14} All cells that --report has stored: published, measured, and whether they agree.")
        return
    check(not stored or report is not None, "--stored needs --report, the folder with the results")
    if study == "summary":
        if report is None:
            raise ConfigError("summary needs --report, the folder with the results")
        from ..report import summary

        click.echo(f"page: {summary.page(report, typed('quiet', 'stored', 'out'))}")
        return
    selected = _selected(study, **asked)
    if only_list:
        for each in selected:
            click.echo(
                f"{each.group}, {each.column}, {each.row}, seed {each.config.seed}, {each.config.rounds} rounds at most"
            )
        return
    from ..study.study import Study
    from .perform import perform_study

    stem = "-".join([study, *(_names("data", asked["data"]) if asked["data"] else [])])
    command = typed("out", "quiet", "data_dir", "workers", "jobs", "stored")
    found = Study("study", tuple(selected), out, command, stem, None if report is None else str(report))
    perform_study(found, data_dir, Show(quiet), only_stored=stored, jobs=jobs)


@click.command()
@click.option(
    "--over", multiple=True, metavar="KEY=A,B,…", required=True, help="an option and its values; may be repeated"
)
@experiment_options(without="")
@jobs_option
@output_options
def sweep(over: tuple[str, ...], jobs: int, output: Output, **given: Any) -> None:
    """Run every combination of some options: feddc sweep --over alpha=0.01,0.1,1 --over seed=0,1,2

    A finished run is never run again, so the command can be stopped and repeated with the same --out.
    """
    from ..study.cells import Cell

    axes = [_axis(text) for text in over]
    check(len({key for key, _ in axes}) == len(axes), "--over names an option twice")
    values = gather(given, output.config)
    cells = []
    for combination in itertools.product(*(choices for _, choices in axes)):
        setting = dict(zip((key for key, _ in axes), combination, strict=True))
        merged = {**values, **setting}
        method = str(merged.pop("method", "feddc"))
        [resolved] = configurations(merged, [method])
        row = ", ".join(f"{key}={value}" for key, value in setting.items() if key != "seed") or "all"
        cells.append(Cell(f"{resolved.data}", row, "best", resolved, published=(None,)))
    from ..study.study import Study
    from .perform import perform

    study = Study("study", tuple(cells), output.out or Path("runs/sweep"), typed(), "sweep")
    perform(study, output.data_dir, output.show, jobs=jobs)


def _selected(
    study: str,
    *,
    seeds: str,
    rounds: int | None,
    target: float | None,
    weights: Path | None,
    workers: int | None,
    **narrow: str | None,
) -> list[Cell]:
    """The cells that were asked for, with what is changed in them."""
    from ..paper.studies import Selection, select

    chosen = {key: _names(key, value) for key, value in narrow.items() if value is not None}
    numbers = whole_numbers("--seeds", seeds)
    found = select(study, Selection(**chosen, seeds=numbers, rounds=rounds, target=target))
    check(weights is None or study == "tiny-imagenet", "--weights goes with the study tiny-imagenet")
    changes: dict[str, Any] = {} if weights is None else {"model": f"resnet18:weights={weights}"}
    changes |= {} if workers is None else {"workers": workers}
    return [replace(each, config=replace(each.config, **changes)) for each in found]


def _names(key: str, text: str) -> list[str]:
    names = [each.strip() for each in text.split(",")]
    check(
        all(names),
        f"--{key} must be names with commas between, not '{text}': leave it out to have all that the study has",
    )
    return names


def _axis(text: str) -> tuple[str, list[str]]:
    key, equals, values = text.partition("=")
    if not equals or not values:
        raise ConfigError(f"--over takes KEY=A,B,… such as alpha=0.01,0.1, not '{text}'")
    return key.strip().replace("-", "_"), [each.strip() for each in values.split(",")]
