"""`feddc run` and `feddc compare`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import ConfigError
from .options import configurations, experiment_options, gather, output_options

if TYPE_CHECKING:
    from ..experiment.config import Config


@click.command()
@experiment_options(without="")
@output_options
def run(out: Path | None, config: Path | None, data_dir: Path | None, quiet: bool, **given: Any) -> None:
    """Train one method and write a run directory."""
    values = gather(given, config)
    [chosen] = configurations(values, [str(values.pop("method", "feddc"))])

    from ..experiment.runner import execute, prepare
    from .display import Display

    simulation = prepare(chosen, data_dir=data_dir)
    out = out or _default_out(chosen.method.partition(":")[0])
    [label] = _labels([chosen])
    with Display({label: chosen.rounds}, quiet) as display:
        display.say(describe(chosen, len(simulation.federation)))
        display.say(f"executor: {simulation.executor_reason}")
        outcome = execute(chosen, simulation, out, display.watch(label, chosen.rounds))
        display.finish(label, outcome)
    display.table([(label, outcome)], chosen)
    display.say(f"written to {out}")
    if outcome.error:
        raise outcome.error


@click.command()
@click.option(
    "--methods", metavar="A,B,…", help="methods to compare, with options: fedavg,feddc:alpha=0.1  [default: all]"
)
@experiment_options(without="method")
@output_options
def compare(
    methods: str | None, out: Path | None, config: Path | None, data_dir: Path | None, quiet: bool, **given: Any
) -> None:
    """Train several methods on the same federation, from the same model, with the same cohorts.

    Without options: all methods on scikit-learn's digits, 20 clients, Dirichlet 0.1, 30 % participation.
    """
    from ..algorithms import METHODS

    values = gather({**given, "methods": methods}, config, also=("methods",))
    values.pop("method", None)
    configs = configurations(values, _names(values.pop("methods", list(METHODS))))

    from ..experiment.rundir import claim
    from ..experiment.runner import execute, federation_of, prepare
    from ..report.figures import convergence
    from .display import Display

    first = configs[0]
    federation = federation_of(first, data_dir)
    for each in configs[1:]:  # every mistake shows before anything is written; the real executors start one by one
        prepare(replace(each, executor="in-process"), federation)
    simulation = prepare(first, federation)
    out = out or _default_out("compare")
    claim(out)
    labels = _labels(configs)
    outcomes = []
    with Display(dict.fromkeys(labels, first.rounds), quiet) as display:
        display.say(describe(first, len(federation)))
        display.say(f"executor: {simulation.executor_reason}")
        for label, each in zip(labels, configs, strict=True):
            simulation = simulation if each is first else prepare(each, federation)
            outcome = execute(each, simulation, out / label.replace(":", "-"), display.watch(label, first.rounds))
            outcomes.append((label, outcome))
            display.finish(label, outcome)
    display.table(outcomes, first)
    runs = [(label, outcome.records) for label, outcome in outcomes]
    convergence(runs, first.target, describe(first, len(federation)), out / "convergence.png")
    display.say(f"picture: {out / 'convergence.png'}   runs: {out}/")


def describe(config: Config, clients: int) -> str:
    """The setting in one line; data that comes with its clients decides how many there are."""
    who = (
        f"cohorts of {config.cohort_size}" if config.cohort_size else f"{100 * (config.participation or 1):g} % a round"
    )
    return (
        f"{config.data}, {clients} clients, {config.split or 'natural split'}, {who}, {config.model}, "
        f"{config.rounds} rounds, {config.epochs} local epochs, batch {config.batch_size or 'full'}, "
        f"lr {config.lr:g}×{config.lr_decay:g}, seed {config.seed}"
    )


def _names(methods: Any) -> list[str]:
    names = methods.split(",") if isinstance(methods, str) else methods
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"methods must be a list of names, not {methods!r}")
    return [name.strip() for name in names]


def _labels(configs: list[Config]) -> list[str]:
    """The method's name, or its whole text where a name occurs twice."""
    names = [config.method.partition(":")[0] for config in configs]
    return [name if names.count(name) == 1 else config.method for name, config in zip(names, configs, strict=True)]


def _default_out(what: str) -> Path:
    base = Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{what}"
    return next(path for i in range(1000) if not (path := base if not i else Path(f"{base}-{i}")).exists())
