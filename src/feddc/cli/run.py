"""`feddc run` and `feddc compare`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import ConfigError
from .options import Show, configurations, experiment_options, gather, output_options

if TYPE_CHECKING:
    from ..report.lines import Setting
    from ..study.config import Config
    from ..study.plan import Plan
    from ..study.runner import Outcome


@click.command()
@experiment_options(without="")
@output_options
def run(
    out: Path | None,
    config: Path | None,
    data_dir: Path | None,
    quiet: bool,
    as_json: bool,
    tensorboard: bool,
    **given: Any,
) -> None:
    """Train one method and write a run directory."""
    values = gather(given, config)
    [chosen] = configurations(values, [str(values.pop("method", "feddc"))])

    show = Show(quiet, as_json, tensorboard)
    train(chosen, out or _default_out(chosen.method.partition(":")[0]), data_dir, show)


def train(config: Config, out: Path, data_dir: Path | None, show: Show, *, resume: bool = False) -> None:
    """Run into ``out``, or with ``resume`` go on with what is there, and show how it goes."""
    from ..study.runinfo import ready
    from ..study.runner import execute, prepare
    from .display import Display

    here, _ = ready(config, out) if resume else (config, False)
    simulation = prepare(here, data_dir=data_dir)
    [label] = _labels([config])
    with Display({label: config.rounds}, show) as display:
        display.say(describe(config, len(simulation.federation)))
        display.say(f"executor: {simulation.executor_reason}")
        watch = display.watch(label, config.rounds)
        outcome = execute(config, simulation, out, watch, resume=resume, tensorboard=show.tensorboard)
        display.finish(label, outcome)
    display.comparison(setting_of([outcome]))
    display.say(f"written to {out}")
    if outcome.error:
        if outcome.kept:
            display.say(f"the checkpoint of round {outcome.kept} is kept in {out / 'checkpoint'}")
        raise outcome.error


@click.command()
@click.option(
    "--methods", metavar="A,B,…", help="methods to compare, with options: fedavg,feddc:alpha=0.1  [default: all]"
)
@experiment_options(without="method")
@output_options
def compare(
    methods: str | None,
    out: Path | None,
    config: Path | None,
    data_dir: Path | None,
    quiet: bool,
    as_json: bool,
    tensorboard: bool,
    **given: Any,
) -> None:
    """Train several methods on the same federation, from the same model, with the same cohorts.

    Without options: all methods on scikit-learn's digits, 20 clients, Dirichlet 0.1, 30 % participation.
    """
    from ..algorithms import METHODS

    values = gather({**given, "methods": methods}, config, also=("methods",))
    values.pop("method", None)
    configs = configurations(values, _names(values.pop("methods", list(METHODS))))

    from ..study.cells import Cell
    from ..study.plan import Plan

    cells = tuple(Cell("", label, "", each) for label, each in zip(_labels(configs), configs, strict=True))
    show = Show(quiet, as_json, tensorboard)
    train_all(Plan("compare", "compare", cells), out or _default_out("compare"), data_dir, show)


def train_all(plan: Plan, out: Path, data_dir: Path | None, show: Show, *, resume: bool = False) -> None:
    """Run a comparison into ``out``, or with ``resume`` what is left of it, and show how it goes."""
    from ..report.figures import save_picture
    from ..study.cells import Shared, check_all
    from ..study.rundir import claim
    from ..study.runinfo import ready, status
    from ..study.runner import execute, read_outcome
    from ..study.trackers import require_tensorboard
    from .display import Display

    first, shared = plan.cells[0].config, Shared(data_dir)
    check_all(plan.cells, shared)
    setting = describe(first, len(shared.federation(first)))
    if show.tensorboard:
        require_tensorboard()
    if not resume:
        claim(out)
    file = plan.write(out)
    outcomes = []
    with Display({cell.row: cell.config.rounds for cell in plan.cells}, show) as display:
        display.say(setting)
        for cell in plan.cells:
            folder = out / cell.row.replace(":", "-")
            if status(folder) == "ended":
                outcome = read_outcome(folder)
            else:
                here, going = ready(cell.config, folder)
                simulation = shared.prepare(here)
                if cell is plan.cells[0]:
                    display.say(f"executor: {simulation.executor_reason}")
                watch = display.watch(cell.row, cell.config.rounds)
                board = show.tensorboard
                outcome = execute(cell.config, simulation, folder, watch, resume=going, again=out, tensorboard=board)
            outcomes.append((cell.row, outcome))
            display.finish(cell.row, outcome)
    compared = setting_of([outcome for _, outcome in outcomes])
    display.comparison(compared)
    for label, outcome in outcomes:
        if outcome.error:
            display.say(f"{label}: {outcome.error}")
    drawn = save_picture(compared, out / "convergence.png")
    file.unlink()
    display.say((f"picture: {out / 'convergence.png'}   " if drawn else "") + f"runs: {out}/")
    errors = [outcome.error for _, outcome in outcomes if outcome.error]
    if len(errors) == len(outcomes):
        raise errors[0]


def setting_of(outcomes: Sequence[Outcome]) -> Setting:
    """Runs of one comparison as the report orders them."""
    from ..report.lines import arrange
    from ..report.runs import of_outcome

    [setting] = arrange([of_outcome(outcome) for outcome in outcomes])
    return setting


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
