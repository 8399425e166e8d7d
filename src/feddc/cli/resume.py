"""`feddc resume`: continue what was interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ..errors import ConfigError, FedDCError, RunError, StoppedError
from .data import data_dir_option
from .options import Show, jobs_option


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--quiet", is_flag=True, help="print nothing but errors")
@jobs_option
@data_dir_option
@click.option(
    "--rollback", type=click.IntRange(1), metavar="ROUNDS", help="first roll back this many rounds of the run"
)
@click.option("--robust", metavar="TEXT", help="with --rollback: the robust rule from then on, or none")
@click.option("--attack", metavar="TEXT", help="with --rollback: none, if the attackers are gone")
def resume(
    folder: Path,
    quiet: bool,
    jobs: int,
    data_dir: Path | None,
    rollback: int | None,
    robust: str | None,
    attack: str | None,
) -> None:
    """Continue the run, comparison, sweep or reproduction in FOLDER, or all of them below it.

    The result is bit-identical to that of an uninterrupted run. With --rollback, the last rounds of the run in FOLDER
    are first rolled back, on the server and on the clients; their records are kept in undone-1.jsonl.
    """
    changes = {key: text for key, text in (("robust", robust), ("attack", attack)) if text is not None}
    if rollback is not None:
        _take_back(folder, rollback, changes, quiet)
    elif changes:
        raise ConfigError(f"--{min(changes)} changes a run only together with --rollback")
    found = list(unfinished(folder))
    if not found:
        if not folder.is_dir():
            raise RunError(f"there is no folder {folder}")
        if not quiet:
            click.echo(f"nothing in {folder} is unfinished")
        return
    faults: list[FedDCError] = []
    for each in found:
        try:
            _go_on(each, data_dir, Show(quiet), jobs)
        except StoppedError:
            raise
        except FedDCError as fault:
            if len(found) == 1:
                raise
            click.echo(f"feddc: {fault}", err=True)
            faults.append(fault)
    if faults:
        raise RunError(f"{len(faults)} of {len(found)} in {folder} could not be continued")


def unfinished(folder: Path) -> Iterator[Path]:
    """The plans and runs in a folder, and below it, that have not come to their end; those of a plan are its own."""
    from ..study.runinfo import status
    from ..study.study import saved

    what = status(folder)
    if found := saved(folder):
        yield from found
    elif what in ("under way", "format 1"):
        yield folder
    elif what == "nothing" and folder.is_dir():
        for each in sorted(folder.iterdir()):
            if each.is_dir() and each.name != "checkpoint":
                yield from unfinished(each)


def _go_on(what: Path, data_dir: Path | None, show: Show, jobs: int) -> None:
    from ..study.runinfo import status
    from ..study.study import read_study
    from .perform import perform

    if what.is_dir() and status(what) == "format 1":
        toml = what / "config.toml"
        raise RunError(f"{what} has format 1, without checkpoints: `feddc run --config {toml}` runs it again")
    perform(read_study(what), data_dir, show, jobs=jobs)


def _take_back(folder: Path, rounds: int, changes: dict[str, str], quiet: bool) -> None:
    from ..study.rollback import roll_back

    values = {key: None if text.lower() == "none" else text for key, text in changes.items()}
    config = roll_back(folder, rounds, **values)
    if not quiet:
        now = ", ".join(f"{key} is {getattr(config, key) or 'none'}" for key in values)
        note = now or "the same rounds are repeated, unless --robust or --attack none changes them"
        click.echo(f"rolled back {rounds} rounds of {folder}; {note}")
