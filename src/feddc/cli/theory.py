"""`feddc theory`: the paper's convergence condition, estimated along a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from ..errors import ConfigError
from .data import data_dir_option
from .options import whole_numbers


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
        click.echo(paper.table(*paper.load(run)))
        return
    from ..specs import Spec
    from ..study.config import from_toml
    from ..study.sources import Named
    from .perform import setting_line

    config = from_toml(run / "config.toml")
    method = Spec.parse(config.method)
    if method.name != "feddc" or "alpha" not in method.options:
        raise ConfigError(f"{run} is a run of {method}: the statement is about FedDC")
    rounds = whole_numbers("at", at)
    simulation = Named(data_dir).simulation(replace(config, rounds=max(rounds) + 1, evaluate_every=max(rounds) + 1))
    about, alpha = setting_line(config, len(simulation.federation)), float(method.options["alpha"])
    try:
        found = list(paper.estimates(simulation, rounds, alpha, clients))
    finally:
        simulation.executor.close()
    if save is not None:
        paper.save(save, about, alpha, found)
    click.echo(paper.table(about, alpha, found))
