"""feddc data: which data sets there are, fetch one, verify one, and where they are stored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from ..data.fetch.download import OnProgress

# Commands import feddc.data when they run: it brings torch, and --help should not wait for it.

data_dir_option = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="the data folder  [default: the environment variable FEDDC_DATA, or feddc's folder in the user's cache]",
)


@click.group()
def data() -> None:
    """Data sets: list them, fetch and verify one, and show the data folder."""


@data.command("list")
@data_dir_option
def list_(data_dir: Path | None) -> None:
    """List the downloadable data sets, and where they are on this machine."""
    from ..data.fetch.catalogue import CATALOGUE
    from ..data.fetch.folder import data_folder
    from ..data.fetch.present import locate

    root = data_folder(data_dir)
    click.echo(f"{'name':<14} {'train':>6} {'test':>6} {'classes':>7} {'to fetch':>9}  where")
    for each in CATALOGUE.values():
        found = locate(each, root)
        size = f"{each.megabytes} MB"
        where = found.folder if found else "-"
        click.echo(f"{each.name:<14} {each.train:>6} {each.test:>6} {each.classes:>7} {size:>9}  {where}")


@data.command()
@click.argument("name")
@data_dir_option
def fetch(name: str, data_dir: Path | None) -> None:
    """Download the data set NAME into the data folder and verify it; an interrupted download is continued."""
    from ..data.fetch.catalogue import entry
    from ..data.fetch.fetching import fetch as fetch_files
    from ..data.fetch.folder import data_folder

    wanted, root = entry(name), data_folder(data_dir)
    with _bars() as bars:
        found = fetch_files(wanted, root, _reporter(bars))
    click.echo(f"{name} is in {found.folder}, with the right checksums")


@data.command()
@click.argument("name")
@data_dir_option
def verify(name: str, data_dir: Path | None) -> None:
    """Check the files of the data set NAME against their published checksums."""
    from ..data.fetch.catalogue import entry
    from ..data.fetch.folder import data_folder
    from ..data.fetch.present import require, verify as verify_files

    wanted = entry(name)
    found = require(wanted, data_folder(data_dir))
    unchecked = verify_files(found)
    found.layout.read(found.paths)  # the form of every file, which is all there is to check where no checksum is known
    note = f", but there is no checksum for {', '.join(map(str, unchecked))}" if unchecked else ""
    click.echo(f"{name} in {found.folder} is valid{note}")


@data.command("pack-cifar100")
@click.argument("folder", type=click.Path(path_type=Path))
@data_dir_option
def pack_cifar100(folder: Path, data_dir: Path | None) -> None:
    """Pack CIFAR-100 from PNG files (FOLDER/train/CLASS, FOLDER/test/CLASS) into its official layout.

    For when the official file cannot be downloaded: https://github.com/cyizhuo/CIFAR-100-dataset has the pictures.
    Their official order is lost, so `feddc data verify` refuses the result, and a seed gives other clients than with
    the official file.
    """
    from ..data.fetch.folder import data_folder
    from ..data.formats.packing import pack_cifar100 as pack

    click.echo(f"cifar100 is in {pack(folder, data_folder(data_dir))}")


@data.command()
@data_dir_option
def path(data_dir: Path | None) -> None:
    """Print the data folder."""
    from ..data.fetch.folder import data_folder

    click.echo(data_folder(data_dir))


def _bars() -> Bars:
    """Progress on the terminal's error stream, so that standard output can be piped."""
    from rich import progress
    from rich.console import Console

    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.DownloadColumn())
    return progress.Progress(*columns, progress.TimeRemainingColumn(), console=Console(stderr=True))


def _reporter(bars: Bars) -> OnProgress:
    tasks: dict[str, int] = {}

    def report(what: str, done: int, total: int | None) -> None:
        if what not in tasks:
            tasks[what] = bars.add_task(what, total=total)
        bars.update(tasks[what], completed=done, total=total)  # type: ignore[arg-type]  # rich's TaskID is an int

    return report
