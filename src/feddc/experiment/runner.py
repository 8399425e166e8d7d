"""Running a configuration: from names to objects, then round by round into a run directory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..algorithms import make_method
from ..data import Federation, load
from ..engine import LocalTraining, Record, Simulation
from ..engine.records import best_accuracy, bytes_to, rounds_to
from ..errors import DivergedError
from ..models import make_model
from .config import Config
from .rundir import RunDir


@dataclass(frozen=True)
class Outcome:
    """A run that has ended: its configuration, its records, and why it stopped early, if it did."""

    config: Config
    records: tuple[Record, ...]
    executor: str
    error: DivergedError | None = None

    def summary(self) -> dict[str, Any]:
        """The run in a few numbers."""
        return {
            "status": "diverged" if self.error else "finished",
            "error": str(self.error) if self.error else None,
            "rounds": len(self.records),
            "best_accuracy": best_accuracy(self.records),
            "final_accuracy": self.records[-1].accuracy if self.records else None,
            "target": self.config.target,
            "rounds_to_target": rounds_to(self.records, self.config.target),
            "bytes_to_target": bytes_to(self.records, self.config.target),
            "bytes_up": sum(r.bytes_up for r in self.records),
            "bytes_down": sum(r.bytes_down for r in self.records),
            "seconds": round(sum(r.seconds for r in self.records), 3),
            "executor": self.executor,
            "config": dataclasses.asdict(self.config),
        }


def prepare(config: Config, federation: Federation | None = None, data_dir: Path | None = None) -> Simulation:
    """The simulation that the configuration describes; a mistake in it shows here, before anything is written."""
    algorithm = make_method(config.method)
    training = LocalTraining(
        epochs=config.epochs,
        batch_size=config.batch_size,
        lr=config.lr,
        lr_decay=config.lr_decay,
        weight_decay=config.weight_decay,
        clip_norm=config.clip_norm,
    )
    if federation is None:
        federation = federation_of(config, data_dir)
    return Simulation(
        algorithm,
        make_model(config.model, federation.shape, federation.classes, config.seed),
        federation,
        rounds=config.rounds,
        participation=config.participation,
        cohort_size=config.cohort_size,
        training=training,
        seed=config.seed,
        evaluate_every=config.evaluate_every,
        executor=config.executor,
        workers=config.workers,
        device=config.device,
        ray_address=config.ray_address,
    )


def federation_of(config: Config, data_dir: Path | None = None) -> Federation:
    """The federation that the configuration describes."""
    return load(config.data, clients=config.clients, split=config.split, seed=config.seed, data_dir=data_dir)


def execute(config: Config, simulation: Simulation, out: Path, on_record: Callable[[Record], None]) -> Outcome:
    """Run to the end, writing ``out`` as it goes. A run that diverges ends with its error in the outcome."""
    run = RunDir(out, config)
    records: list[Record] = []
    error = None
    try:
        for record in simulation.run():
            run.add(record)
            records.append(record)
            on_record(record)
            if config.stop_at is not None and record.accuracy is not None and record.accuracy >= config.stop_at:
                break
    except DivergedError as diverged:
        error = diverged
    finally:
        run.close()
        simulation.executor.close()
    outcome = Outcome(config, tuple(records), simulation.executor_reason, error)
    run.finish(outcome.summary(), None if error else simulation.module())
    return outcome
