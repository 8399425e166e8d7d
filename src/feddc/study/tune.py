"""Choosing hyper-parameters on validation data, with Optuna (``feddc[tune]``).

A trial is a setting of the options that are searched, run with every seed; its value is the mean over seeds of the last
tenth of the validation scores. Trials and runs are on disk as they go: the same call again continues. One process
leads a search, and others may take a part of its trials.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from ..engine import Record
from ..errors import ConfigError, InUseError, check, check_count
from ..storage.lock import Lock
from ..tasks import score_of
from .cells import Cell
from .config import Config, group_key
from .sources import Source
from .study import Listener, Study

if TYPE_CHECKING:
    import optuna

STORE, NAME = "trials.log", "feddc"


@dataclass(frozen=True)
class Range:
    """An option and what may be tried for it: numbers from ``low`` to ``high``, or one of ``choices``."""

    key: str
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    choices: tuple[str, ...] = ()

    @property
    def log(self) -> bool:
        """A range over more than a factor of ten is searched by its logarithm."""
        return self.low > 0 and self.high >= 10 * self.low

    @classmethod
    def parse(cls, text: str) -> Range:
        """``alpha=1e-3..1``, ``epochs=1..10``, or ``batch-size=10,20,50``."""
        key, equals, values = (part.strip() for part in text.partition("="))
        key = key.replace("-", "_")
        check(bool(equals and values), f"--over takes KEY=LOW..HIGH or KEY=A,B,… such as alpha=1e-3..1, not '{text}'")
        low, dots, high = values.partition("..")
        if not dots:
            return cls(key, choices=tuple(each.strip() for each in values.split(",")))
        try:
            found = float(low), float(high)
        except ValueError:
            raise ConfigError(f"--over {key} needs two numbers with .. between, not '{values}'") from None
        good = math.isfinite(found[0]) and math.isfinite(found[1]) and found[0] < found[1]
        check(good, f"--over {key} needs a smaller and a larger number, not '{values}'")
        whole = all(each.lstrip("-").isdigit() for each in (low, high))
        return cls(key, *found, whole)

    def suggest(self, trial: optuna.Trial) -> float | int | str:
        """What a trial tries."""
        if self.choices:
            return str(trial.suggest_categorical(self.key, self.choices))
        if self.whole:
            return trial.suggest_int(self.key, int(self.low), int(self.high), log=self.log)
        return float(f"{trial.suggest_float(self.key, self.low, self.high, log=self.log):.4g}")


@dataclass(frozen=True)
class Tuned:
    """What was tried: the best setting, its value, and how many trials were finished and stopped early."""

    best: Mapping[str, Any]
    value: float
    finished: int
    pruned: int


class Search:
    """A search in a folder: ``run`` continues it until there are ``trials`` of them."""

    def __init__(
        self,
        ranges: Sequence[Range],
        configure: Callable[[Mapping[str, Any]], Config],
        folder: Path,
        *,
        seeds: Sequence[int] = (0,),
        process: int = 0,
    ) -> None:
        """``configure`` gives the configuration for a setting of the options; it has to set validation data aside.

        ``process`` tells apart processes that work on one folder: each draws its own settings.
        """
        check(len({each.key for each in ranges}) == len(ranges), "--over names an option twice")
        check(bool(ranges) and bool(seeds), "a search needs an option to search over and a seed")
        self.ranges, self.configure, self.folder, self.seeds = list(ranges), configure, folder, seeds
        self.process = process

    def run(self, source: Source, trials: int, on_trial: Callable[[int, str], None] = lambda *_: None) -> Tuned:
        """Run trials until there are so many; ``on_trial`` is told of each that has ended, by its number.

        What was interrupted is tried again first: its runs are on disk and continue.
        """
        check_count("trials", trials)
        optuna = require_optuna()
        self.folder.mkdir(parents=True, exist_ok=True)
        leading = Lock(self.folder) if self.process == 0 else None
        try:
            study = self._study(optuna, source)
            if leading is not None:
                _again(optuna, study)
            self._run(optuna, study, source, trials, on_trial)
            return self.found()
        finally:
            if leading is not None:
                leading.release(remove=True)

    def _run(self, optuna: Any, study: Any, source: Source, trials: int, on_trial: Callable[[int, str], None]) -> None:
        kinds = optuna.trial.TrialState
        ended = (kinds.COMPLETE, kinds.PRUNED)

        def begin() -> Any | None:
            """The next trial, or None if as many as are wanted have ended or are under way."""
            with FileLock(self.folder / "next.lock"):
                begun = study.get_trials(deepcopy=False, states=(*ended, kinds.RUNNING))
                return study.ask() if len(begun) < trials else None

        while (trial := begin()) is not None:
            try:
                value = self._value(optuna, trial, source)
            except optuna.TrialPruned:
                study.tell(trial, state=kinds.PRUNED)
                said = "stopped early"
            except BaseException:
                study.tell(trial, state=kinds.FAIL)
                raise
            else:
                study.tell(trial, value)
                said = f"{value:.4f}"
            setting = ", ".join(f"{key}={_short(value)}" for key, value in trial.params.items())
            on_trial(len(study.get_trials(deepcopy=False, states=ended)), f"{setting}: {said}")

    def found(self) -> Tuned:
        """What the folder holds."""
        optuna = require_optuna()
        study = self._study(optuna)
        kinds = optuna.trial.TrialState
        finished = study.get_trials(deepcopy=False, states=(kinds.COMPLETE,))
        check(bool(finished), f"no trial in {self.folder} has finished")
        pruned = len(study.get_trials(deepcopy=False, states=(kinds.PRUNED,)))
        return Tuned(dict(study.best_params), study.best_value, len(finished), pruned)

    def table(self) -> list[tuple[dict[str, Any], float | None]]:
        """Every trial's setting and value; None for one that was stopped early."""
        optuna = require_optuna()
        kinds = optuna.trial.TrialState
        found = self._study(optuna).get_trials(deepcopy=False, states=(kinds.COMPLETE, kinds.PRUNED))
        return [(dict(each.params), each.value if each.state == kinds.COMPLETE else None) for each in found]

    def _study(self, optuna: Any, source: Source | None = None) -> Any:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(self.folder / STORE)))
        if source is None:
            return optuna.load_study(study_name=NAME, storage=storage)
        first = self.configure({each.key: each.choices[0] if each.choices else each.high for each in self.ranges})
        trial = source.simulation(dataclasses.replace(first, executor="in-process", workers=None))
        study = optuna.create_study(
            storage=storage,
            study_name=NAME,
            load_if_exists=True,
            direction="maximize" if score_of(trial.federation.task).higher_is_better else "minimize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=max(1, first.rounds // 5)),
        )
        kinds = optuna.trial.TrialState
        ended = len(study.get_trials(deepcopy=False, states=(kinds.COMPLETE, kinds.PRUNED)))
        seed = self.seeds[0] + 1000 * self.process + ended  # a search that is continued draws other settings
        study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        for what, here in (("ranges", repr(self.ranges)), ("settings", repr(group_key(first)))):
            known = study.user_attrs.get(what, here)
            check(known == here, f"{self.folder} holds a search over other {what}: choose another --out")
            study.set_user_attr(what, here)
        return study

    def _value(self, optuna: Any, trial: optuna.Trial, source: Source) -> float:
        config = self.configure({each.key: each.suggest(trial) for each in self.ranges})
        cells = [Cell(config.data, "", "", dataclasses.replace(config, seed=seed)) for seed in self.seeds]
        study = Study("study", tuple(cells), self.folder / "runs")
        values = []
        for cell in cells:
            try:
                outcome = study.run_cell(cell, source, _Pruning(optuna, trial, cell is cells[0]))
            except InUseError:  # another process has just drawn the same choices
                raise optuna.TrialPruned("another process runs it") from None
            if outcome.error is not None:
                raise optuna.TrialPruned(str(outcome.error))
            values.append(value_of(outcome.records))
        return statistics.mean(values)


class _Pruning(Listener):
    """Stops a trial that does worse than the others did by this round, judged by its first seed."""

    def __init__(self, optuna: Any, trial: optuna.Trial, judging: bool) -> None:
        self.optuna, self.trial, self.judging = optuna, trial, judging

    def on_record(self, cell: Cell, record: Record) -> None:
        if self.judging and (value := validation_score(record)) is not None:
            self.trial.report(value, record.round)
            if self.trial.should_prune():
                raise self.optuna.TrialPruned(f"stopped after round {record.round}")


def validation_score(record: Record) -> float | None:
    """The score of the global model on the validation data, where it was evaluated."""
    return None if record.validation is None else record.validation[record.score.name]


def value_of(records: Sequence[Record]) -> float:
    """The mean of the last tenth of the validation scores of a run."""
    found = [value for record in records if (value := validation_score(record)) is not None]
    check(bool(found), "the runs have no validation scores: set samples aside with --validation 0.1")
    return statistics.mean(found[-max(1, len(found) // 10) :])


def require_optuna() -> Any:
    """Optuna, or a sentence on how to get it."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise ConfigError(f"tuning needs Optuna, install feddc[tune]: {error}") from None
    return optuna


def _again(optuna: Any, study: Any) -> None:
    """Put down again what was interrupted; what is under way belongs to a process that was killed."""
    kinds = optuna.trial.TrialState
    for each in study.get_trials(deepcopy=False, states=(kinds.RUNNING,)):
        study.tell(each.number, state=kinds.FAIL)
    tried = study.get_trials(deepcopy=False)
    known = [each.params for each in tried if each.state in (kinds.COMPLETE, kinds.PRUNED, kinds.WAITING)]
    for each in tried:
        if each.state == kinds.FAIL and each.params and each.params not in known:
            study.enqueue_trial(each.params, skip_if_exists=True)
            known.append(each.params)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
