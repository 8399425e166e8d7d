"""Executing a simulation round by round into a run directory."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..engine import Record, Simulation
from ..engine.growth import warning
from ..engine.records import Course, score_in
from ..errors import DivergedError, FedDCError, StoppedError, StorageError, WorkerError
from .config import Config, from_toml
from .interrupts import Interrupts
from .rundir import RunDir, read_records, to_stderr
from .runinfo import reading, status
from .trackers import TensorBoard


@dataclass(frozen=True)
class Outcome(Course):
    """A run that has ended: its configuration, its records, and why it stopped early, if it did."""

    config: Config
    records: tuple[Record, ...]
    executor: str
    error: FedDCError | None = None
    kept: int = 0
    """The round of the last checkpoint, which a run that diverged leaves on disk."""

    def summary(self) -> dict[str, Any]:
        """The run in a few numbers."""
        return {
            "status": "diverged" if self.error else "finished",
            "error": str(self.error) if self.error else None,
            "warning": warning(self.records, self.config.method),
            "rounds": len(self.records),
            "score": score_in(self.records).name,
            "best": self.best,
            "final": self.records[-1].value if self.records else None,
            "best_accuracy": self.best_accuracy,
            "final_accuracy": self.records[-1].accuracy if self.records else None,
            "target": self.config.target,
            "rounds_to_target": self.rounds_to(self.config.target),
            "bytes_to_target": self.bytes_to(self.config.target),
            "rejected": sum(len(r.rejected) for r in self.records),
            "bytes_up": sum(r.bytes_up for r in self.records),
            "bytes_down": sum(r.bytes_down for r in self.records),
            "seconds": round(sum(r.seconds for r in self.records), 3),
            "executor": self.executor,
            "config": dataclasses.asdict(self.config),
        }


def execute(
    config: Config,
    simulation: Simulation,
    out: Path,
    on_record: Callable[[Record], None],
    *,
    resume: bool = False,
    again: Path | None = None,
    given: Mapping[str, str] | None = None,
    tensorboard: bool = False,
    say: Callable[[str], None] = to_stderr,
) -> Outcome:
    """Run to the end, writing ``out`` as it goes; with ``resume`` continue what ``out`` holds.

    A run that diverges ends with its error in the outcome. ``say`` gets what the user should know of checkpoints that
    failed or were passed over; ``again`` is the folder to name in sentences on how to continue, if it is not ``out``;
    ``given`` are digests of objects that the configuration cannot name.
    """
    if tensorboard:
        simulation.callbacks.append(TensorBoard(out / "tensorboard"))
    rounds = simulation.run()
    how = f"`feddc resume {again or out}` continues"
    with RunDir(out, config, simulation, resume=resume, given=given) as run, Interrupts() as interrupts:
        try:
            records = list(run.restore(say)) if resume else []
            error = None
            try:
                for record in () if _done(config, records) else rounds:
                    run.add(record)
                    records.append(record)
                    on_record(record)
                    if _done(config, records):
                        break
                    run.checkpoint(say, now=interrupts.received is not None)
                    if interrupts.received is not None:
                        raise StoppedError(interrupts.received, f"after round {record.round}")
            except DivergedError as diverged:
                error = diverged
            outcome = Outcome(config, tuple(records), simulation.executor_reason, error, run.kept)
            run.finish(outcome.summary() | run.costs(), None if error else simulation.module())
        except StoppedError as stopped:
            raise StoppedError(stopped.signal, f"{stopped.what}: {how}") from None
        except WorkerError as failed:
            raise WorkerError(f"{failed}; {how}") from failed
        except OSError as failed:
            raise StorageError(f"{failed.strerror} ({failed.filename or out}): fix that, then {how}") from failed
        finally:
            rounds.close()  # tells the callbacks, however it ended
            simulation.executor.close()
    return outcome


def read_outcome(path: Path) -> Outcome:
    """The outcome of a run from its directory; of one that has not ended, as far as it has come."""
    file = path / "summary.json"
    if not file.exists() and status(path) != "nothing":
        return Outcome(from_toml(path / "config.toml"), read_records(path / "records.jsonl"), "")
    with reading(file):
        summary = json.loads(file.read_text(encoding="utf-8"))
        error = None if summary["status"] == "finished" else DivergedError.read(str(summary["error"]))
        executor = str(summary["executor"])
    return Outcome(from_toml(path / "config.toml"), read_records(path / "records.jsonl"), executor, error)


def _done(config: Config, records: Sequence[Record]) -> bool:
    """Whether all rounds were run, or the score was reached at which the run may stop."""
    if not records:
        return False
    value, score = records[-1].value, records[-1].score
    reached = config.stop_at is not None and value is not None and score.reached(value, config.stop_at)
    return reached or records[-1].round == config.rounds
