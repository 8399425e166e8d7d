"""`feddc flower`: the way to a real federation."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def flower() -> None:
    """A real federation on Flower: clients on machines of their own (feddc[flower], docs/federation.md)."""


@flower.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def new(folder: Path) -> None:
    """Write a Flower app into DIR that runs as it is, with a place for your own data."""
    from ..flower.new import write_app

    name = write_app(folder)
    click.echo(
        f"wrote {folder}/: your data and model go into {folder / name / 'task.py'}, settings into pyproject.toml"
    )
    click.echo(f"try it in simulation: flwr run {folder} --federation-config num-supernodes=3 --stream")
    click.echo("on machines of their own: docs/federation.md")
