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


@flower.command("hash")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
def hash_(folder: Path) -> None:
    """Print the hash of the app in DIR, for `feddc flower node --app-hash`."""
    from ..flower.client.pins import app_hash

    click.echo(app_hash(folder))


@flower.command(context_settings={"ignore_unknown_options": True}, options_metavar="")
@click.option("--app-hash", metavar="HASH", help="Run the app with this hash and no other (see `feddc flower hash`).")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTION OF flower-supernode]...")
def node(options: tuple[str, ...], app_hash: str | None) -> None:
    """Start a client: Flower's SuperNode, with faster rounds and, with --app-hash, one app only.

    All other options are those of `flower-supernode`, for example:

    \b
      feddc flower node --superlink 127.0.0.1:8000 --node-config 'partition-id=0' --insecure

    A process beside it has imported Flower already: a SuperNode alone imports it again for every message. A SuperNode
    with a key is started again until the SuperLink lets it in (at most --max-retries times, if that is given). It ends
    as the SuperNode does, with the same exit code.
    """
    from ..flower.client.node import run_supernode

    raise SystemExit(run_supernode([*options], app_hash))
