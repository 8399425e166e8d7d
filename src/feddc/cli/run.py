"""`feddc run` and `feddc compare`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from ..errors import ConfigError
from .options import (
    Output,
    configurations,
    experiment_options,
    gather,
    jobs_option,
    output_options,
    typed,
    whole_numbers,
)

USUAL = ("fedavg", "fedprox", "scaffold", "feddyn", "feddc", "fedadam", "fedyogi", "fedadagrad")
"""What is compared if no methods are named: those that the FedDC paper compares."""


@click.command()
@experiment_options(without="")
@output_options
def run(output: Output, **given: Any) -> None:
    """Train one method and write a run directory."""
    values = gather(given, output.config)
    [chosen] = configurations(values, [str(values.pop("method", "feddc"))])

    from ..specs import Spec
    from ..study.cells import Cell
    from ..study.study import Study
    from .perform import perform

    out = output.out or _default_out(Spec.parse(chosen.method).label)
    study = Study("run", (Cell("", "", "", chosen),), out, typed())
    perform(study, output.data_dir, output.show, fresh=True)


@click.command()
@click.option(
    "--methods",
    metavar="A,B,…",
    help="methods to compare, with options: fedavg,feddc:alpha=0.1; or all  [default: the eight of the FedDC paper]",
)
@click.option("--seeds", metavar="A,B,…", help="seeds to repeat each method with  [default: --seed]")
@experiment_options(without="method")
@jobs_option
@output_options
def compare(methods: str | None, seeds: str | None, jobs: int, output: Output, **given: Any) -> None:
    """Train several methods on the same federation, from the same model, with the same cohorts.

    Without options: eight methods on scikit-learn's digits, 20 clients, Dirichlet 0.1, 30 % participation.
    """
    values = gather({**given, "methods": methods}, output.config, also=("methods",))
    values.pop("method", None)
    configs = configurations(values, _names(values.pop("methods", list(USUAL))))

    from ..study.cells import Cell, labels
    from ..study.study import Study
    from .perform import perform

    repeated = [configs[0].seed] if seeds is None else whole_numbers("--seeds", seeds)
    cells = tuple(
        Cell("", label if len(repeated) == 1 else f"{label}-s{seed}", "", replace(each, seed=seed))
        for seed in repeated
        for label, each in zip(labels(configs), configs, strict=True)
    )
    study = Study("compare", cells, output.out or _default_out("compare"), typed(), stem="compare")
    perform(study, output.data_dir, output.show, fresh=True, jobs=jobs)


def _names(methods: Any) -> list[str]:
    names = methods.split(",") if isinstance(methods, str) else methods
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"methods must be a list of names, not {methods!r}")
    from ..algorithms import METHODS

    return [each for name in names for each in (METHODS if name.strip() == "all" else [name.strip()])]


def _default_out(what: str) -> Path:
    base = Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{what}"
    return next(path for i in range(1000) if not (path := base if not i else Path(f"{base}-{i}")).exists())
