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


@flower.command(context_settings={"ignore_unknown_options": True}, options_metavar="")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTION OF flower-supernode]...")
def node(options: tuple[str, ...]) -> None:
    """Start a client: Flower's SuperNode, with faster rounds.

    All options are those of `flower-supernode`, for example:

    \b
      feddc flower node --superlink 127.0.0.1:8000 --node-config 'partition-id=0' --insecure

    This becomes the SuperNode, and keeps a process beside it that has imported Flower already: a SuperNode alone
    imports it again for every message. It ends as the SuperNode does, with the same exit code.
    """
    from ..flower.client.node import become_supernode

    become_supernode([*options])
