"""`feddc flower`: the way to a real federation."""

from __future__ import annotations

import shutil
from pathlib import Path

import click


@click.group()
def flower() -> None:
    """Run a real federation on Flower, with clients on separate machines.

    Needs feddc[flower]; docs/federation.md is the guide.
    """


@flower.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def new(folder: Path) -> None:
    """Write a working Flower app into DIR, with a place for your own data."""
    from ..flower.new import write_app

    name = write_app(folder)
    click.echo(
        f"wrote {folder}/: your data and model go into {folder / name / 'task.py'}, settings into pyproject.toml"
    )
    click.echo(f"try it on this machine: feddc flower up {folder} --sites 3")
    click.echo("on separate machines: docs/federation.md")


@flower.command()
@click.argument("app", metavar="[DIR]", required=False, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--sites", default=3, show_default=True, help="Number of sites.")
@click.option(
    "--folder",
    default="federation",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for logs and results.",
)
@click.option("--run-config", default="", metavar="TEXT", help="Settings of the run, such as 'rounds=5 lr=0.05'.")
@click.option(
    "--node-config",
    multiple=True,
    metavar="TEXT",
    help="Settings of a site, such as 'data=\"a.csv\"'; give it once for every site.",
)
def up(app: Path | None, sites: int, folder: Path, run_config: str, node_config: tuple[str, ...]) -> None:
    """Start a whole federation on this machine: a SuperLink and its sites, each in its own process.

    With DIR, the app in it is run, then everything is stopped; the exit code is 0 if the run was completed. Without
    DIR, the federation runs until Ctrl-C, and `flwr run` submits apps to it.
    """
    import signal
    import sys
    import time

    from ..flower.local import CONNECTION, LocalFederation
    from ..flower.versions import check_flower

    check_flower()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all ends with it
    with LocalFederation(folder, sites, node_config) as federation:
        click.echo(f"a federation of {sites} sites; its logs are in {folder}/")
        if app is not None:
            status = federation.run(app, run_config)
            if status == "finished:completed":
                click.echo(f"results: feddc report {federation.home / 'feddc'}")
                return
            click.echo(
                f"the run was not completed ({status}): its last lines say why, or the logs in {folder}/", err=True
            )
            raise SystemExit(1)
        click.echo(f"export FLWR_HOME={federation.home.resolve()}\nflwr run DIR {CONNECTION} --stream")
        while True:
            federation.check()
            time.sleep(1.0)


@flower.command()
@click.argument("address", metavar="HOST:PORT")
@click.option("--root-certificates", type=click.Path(path_type=Path, dir_okay=False), help="The CA's certificate.")
def health(address: str, root_certificates: Path | None) -> None:
    """Check that a SuperLink is healthy; exit code 0 if it is."""
    from ..flower.health import check_superlink

    check_superlink(address, root_certificates)
    click.echo("healthy")


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
    """Start a client: Flower's SuperNode with faster rounds, and with --app-hash for one app only.

    All other options are those of `flower-supernode`, for example:

    \b
      feddc flower node --superlink 127.0.0.1:8000 --node-config 'partition-id=0' --insecure

    A SuperNode alone imports Flower again for every message; this command keeps a process that has already imported
    it. A SuperNode with a key is restarted until the SuperLink accepts it (at most --max-retries times, if given). The
    exit code is that of the SuperNode.
    """
    from ..flower.client.node import run_supernode
    from ..flower.versions import check_flower

    if shutil.which("flower-supernode") is not None:
        check_flower()
    raise SystemExit(run_supernode([*options], app_hash))
