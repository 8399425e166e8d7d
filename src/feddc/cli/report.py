"""`feddc report` and `feddc watch`: runs as a page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import click

from ..errors import check

FORMATS = ("pdf", "png", "svg")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("report.html"), help="the page to write")
@click.option("--title", help="the page's title  [default: the names of the runs]")
@click.option(
    "--figures", metavar="A,B,…", help="also figures for a paper, as pdf, png or svg, with their numbers as CSV"
)
@click.option(
    "--latex", metavar="DIR", type=click.Path(path_type=Path), help="folder for tables as LaTeX and figures as PDF"
)
@click.option(
    "--csv",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="folder for every number of every table and figure, as CSV",
)
@click.option("--target", type=float, help="target of 'rounds to target'  [default: that of the runs]")
def report(
    runs: tuple[Path, ...],
    output: Path,
    title: str | None,
    figures: str | None,
    latex: Path | None,
    csv: Path | None,
    target: float | None,
) -> None:
    """Make one self-contained HTML page from run directories.

    RUNS are run directories, or folders of comparisons, sweeps and reproductions. The figures go into a folder beside
    the page, named after it.
    """
    formats = [each.strip() for each in figures.split(",")] if figures is not None else []
    for each in formats:
        check(each in FORMATS, f"figures are made as {', '.join(FORMATS)}, not '{each}'")

    from ..report.lines import arrange
    from ..report.page import render
    from ..report.runs import collect
    from ..storage.atomic import write_whole

    settings = arrange(collect(runs), target)
    share = target is None or 0 < target <= 1 or not any(setting.measure.percent for setting in settings)
    check(share, f"--target is a share, such as 0.95 for 95 %, not {target:g}" if target is not None else "")
    page = render(settings, title or f"feddc: {', '.join(path.name for path in runs)}")
    check(not output.is_dir(), f"{output} is a folder: -o takes the name of the page to write")
    output.parent.mkdir(parents=True, exist_ok=True)
    write_whole(output, page)
    count = sum(len(setting.runs) for setting in settings)
    click.echo(f"{output}: {count} run{'s' * (count != 1)}, {len(page.encode()) / 1e6:.1f} MB")
    from ..report.export import export_csv, export_figures, export_latex

    written: list[Iterator[Path]] = []
    written += [export_figures(settings, output.with_suffix(""), formats)] if formats else []
    written += [export_latex(settings, latex)] if latex is not None else []
    written += [export_csv(settings, csv)] if csv is not None else []
    for file in chain(*written):
        click.echo(str(file))


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=8642, help="0 picks a free one  [default: 8642]")
def watch(folder: Path, port: int) -> None:
    """Show the report of a running experiment in the browser.

    The page is refreshed while runs in FOLDER are in progress, and is served on this machine only.
    """
    from ..report.watch import HOST, serve

    with serve(folder, port) as server:
        click.echo(f"http://{HOST}:{server.server_address[1]}/   (Ctrl-C to stop)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("stopped")
