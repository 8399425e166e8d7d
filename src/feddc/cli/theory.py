"""`feddc theory`: the paper's convergence condition, estimated along a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import ConfigError, RunError, check
from .data import data_dir_option
from .options import whole_numbers

if TYPE_CHECKING:
    from ..study.config import Config


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--at", default="0,1,5,20", metavar="A,B,…", help="estimate after these rounds  [default: 0,1,5,20]")
@click.option(
    "--clients", type=click.IntRange(1), default=10, help="number of clients whose curvature is measured  [default: 10]"
)
@click.option("--save", type=click.Path(path_type=Path), help="also write the estimates to this file")
@data_dir_option
def theory(run: Path, at: str, clients: int, save: Path | None, data_dir: Path | None) -> None:
    """Estimate the paper's convergence condition, p > 0, along a run of FedDC.

    RUN is a run directory of FedDC, whose rounds are computed again, or a file that --save has written. The output has
    lower bounds of the dissimilarity B and the smoothness β, the upper bounds of p that they imply, and the p that the
    next round really had. A negative bound shows that the condition does not hold; a positive one shows nothing.
    """
    from ..paper import theory as paper

    if run.is_file():
        check(save is None, f"--save keeps new estimates; those in {run} are kept already")
        click.echo(paper.table(*paper.load(run)))
        return
    from ..study.sources import Named
    from .perform import setting_line

    rounds = sorted(set(whole_numbers("--at", at)))
    check(rounds[0] >= 0, f"--at must be whole numbers, 0 or more, not '{at}': 0 is the start")
    check(save is None or not save.is_dir(), f"--save {save} is a folder: name a file in it")
    config, alpha = _read(run)
    simulation = Named(data_dir).simulation(replace(config, rounds=rounds[-1] + 1, evaluate_every=rounds[-1] + 1))
    if save is not None:
        save.parent.mkdir(parents=True, exist_ok=True)
    try:
        found = list(paper.estimates(simulation, rounds, alpha, clients))
    finally:
        simulation.executor.close()
    about = setting_line(config, len(simulation.federation))
    click.echo(paper.table(about, alpha, found))
    if save is not None:
        paper.save(save, about, alpha, found)


def _read(run: Path) -> tuple[Config, float]:
    """The configuration of a run of FedDC, and its α; any other run is refused."""
    from ..algorithms import make_method
    from ..algorithms.feddc import FedDC
    from ..study.config import from_toml
    from ..study.runinfo import read_info

    config = from_toml(run / "config.toml")
    if (run / "run.json").is_file() and read_info(run).get("given"):
        raise RunError(
            f"{run} was begun from Python, with objects of its own: its rounds cannot be computed again here"
        )
    method = make_method(config.method)
    if not isinstance(method, FedDC):
        raise ConfigError(f"{run} is a run of {config.method}: the statement is about FedDC")
    used = method.penalty and method.alpha > 0
    check(used, f"{run} is a run of {config.method}, without the penalty: the statement is about FedDC with its α")
    return config, method.alpha
