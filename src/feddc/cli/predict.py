"""`feddc predict`: the model of a run on new rows or pictures."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def predict(run: Path, files: tuple[Path, ...]) -> None:
    """Predict new rows or pictures with the model of a run.

    Prints one line for each row of CSV FILES, or for each picture. They are prepared as in training; the run directory
    RUN stores how.
    """
    from ..study.trained import load_model

    for found in load_model(run).predict(list(files)):
        click.echo(" ".join(map(str, found)) if isinstance(found, list) else str(found))
