"""Which model is judged: the rounds to a target for the global model, for the mean of the cohort's models, and for
the mean of the last models of all clients. The authors' code computes all three; the paper does not say which it
prints.

    python -m benchmarks.judged --data mnist --target 0.96 --seeds 0,1,2
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from rich import progress
from rich.console import Console

import feddc
from feddc.engine.evaluation import metrics_of, total
from feddc.engine.executors.base import Correct, Parts
from feddc.engine.local.kernel import Start
from feddc.paper.studies import Selection, select
from feddc.report.numbers.units import markdown_table
from feddc.study.cells import Cell
from feddc.study.sources import Named
from feddc.types import Vector

JUDGED = ("global", "mean of the cohort", "mean of all")


class Judges(feddc.Callback):
    """The accuracy of each of the three models after every round, in ``scores``."""

    def __init__(self) -> None:
        self.scores: dict[str, list[float]] = {name: [] for name in JUDGED}

    def on_start(self, simulation: feddc.Simulation) -> None:
        self.simulation = simulation
        self.last = simulation.server.model.repeat(len(simulation.federation), 1)  # client x parameters
        train = simulation.executor.train

        def watched(clients: Sequence[int], start: Start, correct: Correct) -> Parts:
            left = list(clients)
            for trained in train(clients, start, correct):
                here, left = left[: len(trained.params)], left[len(trained.params) :]
                self.last[here] = trained.params
                yield trained

        simulation.executor.train = watched  # type: ignore[method-assign]

    def on_record(self, record: feddc.Record) -> None:
        models = self.simulation.server.model, self.last[list(record.participants)].mean(dim=0), self.last.mean(dim=0)
        for name, model in zip(JUDGED, models, strict=True):
            self.scores[name].append(self._accuracy(model))

    def _accuracy(self, model: Vector) -> float:
        simulation = self.simulation
        start = Start(simulation.round, model, simulation.buffers)
        found = total(simulation.executor.measure(start, simulation.federation.blocks("test")))
        assert found is not None
        return metrics_of(found, simulation.federation.task)["accuracy"]

    def rounds_to(self, target: float) -> dict[str, int | None]:
        """The first round in which each model has the target accuracy; None if it has not."""
        return {
            name: next((i for i, score in enumerate(scores, start=1) if score >= target), None)
            for name, scores in self.scores.items()
        }


def judged(source: Named, cell: Cell) -> Judges:
    """A cell, run until all three models are at its last target, or to its last round."""
    simulation, judges = source.simulation(cell.config), Judges()
    simulation.callbacks.append(judges)
    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn())
    with progress.Progress(*columns, progress.TimeRemainingColumn(), console=Console(stderr=True)) as bars:
        task = bars.add_task(_place(cell), total=cell.config.rounds)
        for _ in simulation.run():
            now = " / ".join(f"{100 * scores[-1]:.2f}" for scores in judges.scores.values())
            bars.update(task, advance=1, description=f"{_place(cell)}, seed {cell.config.seed}: {now} %")
            if None not in judges.rounds_to(cell.targets[-1]).values():
                break
    return judges


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each method and split: published, and the mean over seeds for each of the three models."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judged", description=__doc__)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--split", default="iid,d1,d2")
    parser.add_argument("--participation", default="0.15")
    parser.add_argument("--methods", default="scaffold,feddyn,feddc")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--target", type=float, required=True)
    parser.add_argument("--precision")
    parser.add_argument("--data-dir", type=Path)
    given = parser.parse_args(arguments)
    words = {name: getattr(given, name).split(",") for name in ("data", "split", "participation", "methods")}
    seeds = tuple(map(int, given.seeds.split(",")))
    source, rows = Named(given.data_dir), list[list[str]]()
    words |= {} if given.precision is None else {"precision": given.precision.split(",")}
    chosen = Selection(**words, seeds=seeds, rounds=given.rounds, target=given.target)
    cells = select("rounds", chosen)
    for first in range(0, len(cells), len(seeds)):
        members = cells[first : first + len(seeds)]
        found = [judged(source, each).rounds_to(given.target) for each in members]
        means = [_mean([each[name] for each in found]) for name in JUDGED]
        rows.append([_place(members[0]), str(members[0].published[-1]), *means])
    print(markdown_table([f"rounds to {100 * given.target:g} %", "published", *JUDGED], rows), end="")


def _place(cell: Cell) -> str:
    return f"{cell.group}, {cell.column}, {cell.row}"


def _mean(rounds: Sequence[int | None]) -> str:
    reached = [each for each in rounds if each is not None]
    words = [f"{mean(reached):.1f}"] if reached else []
    words += [f"{len(rounds) - len(reached)} not reached"] if len(reached) < len(rounds) else []
    return "; ".join(words)


if __name__ == "__main__":
    main()
