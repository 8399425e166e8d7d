"""Runs put in order: settings (what the clients hold and who takes part), and in each a line per method, over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import mean, median

from ..algorithms import METHODS
from ..engine.records import best_accuracy, rounds_to
from ..study.config import Config
from .collect import Run
from .tables import last_value

SETTING = ("data", "split", "clients", "participation", "cohort_size")
# What two runs of one line may differ in: the seed, and what has no bearing on the result.
FREE = ("seed", "target", "stop_at", "executor", "workers", "device", "diagnostics", "method")


@dataclass(frozen=True)
class Line:
    """One method of a setting: its runs, one for each seed."""

    label: str
    method: str
    """The method's text, as configured: its name and its options."""
    runs: tuple[Run, ...]

    @property
    def name(self) -> str:
        return self.method.partition(":")[0]

    @property
    def options(self) -> dict[str, str]:
        """The options in the method's text that have a name."""
        parts = (part.partition("=") for part in self.method.split(":")[1:])
        return {key: value for key, equals, value in parts if equals}

    @property
    def budget(self) -> int:
        """The rounds that its runs were given."""
        return max(run.config.rounds for run in self.runs)

    def best(self) -> list[float]:
        """The best accuracy of each seed."""
        return [each for run in self.runs if (each := best_accuracy(run.records)) is not None]

    def last(self) -> list[float]:
        """The mean accuracy of the last ten evaluations of each seed."""
        return [each for run in self.runs if (each := last_value(run.records)) is not None]

    def rounds_to(self, target: float) -> list[int | None]:
        return [rounds_to(run.records, target) for run in self.runs]

    def cost_to(self, target: float) -> list[tuple[int, int, float] | None]:
        """Rounds, bytes in both directions, and seconds until the target, for each seed; None where not reached."""
        found: list[tuple[int, int, float] | None] = []
        for run, rounds in zip(self.runs, self.rounds_to(target), strict=True):
            spent = [r for r in run.records if rounds is not None and r.round <= rounds]
            cost = (len(spent), sum(r.bytes_up + r.bytes_down for r in spent), sum(r.seconds for r in spent))
            found.append(None if rounds is None else cost)
        return found

    def round_cost(self) -> tuple[float, float]:
        """Bytes and (median) seconds of a round, for each client that took part: cohorts differ in size."""
        records = [record for run in self.runs for record in run.records]
        moved = sum(r.bytes_up + r.bytes_down for r in records) / max(1, sum(len(r.participants) for r in records))
        return moved, median(r.seconds / max(1, len(r.participants)) for r in records)

    def mean_cost_to(self, target: float) -> tuple[float, float, float] | None:
        """The same, over seeds; None unless every seed got there."""
        known = [each for each in self.cost_to(target) if each is not None]
        if not known or len(known) < len(self.runs):
            return None
        rounds, moved, seconds = zip(*known, strict=True)
        return mean(rounds), mean(moved), mean(seconds)


@dataclass(frozen=True)
class Setting:
    """Runs that differ in method and seed, and in little else."""

    title: str
    lines: tuple[Line, ...]

    @property
    def config(self) -> Config:
        """The configuration of its first run: what the setting's runs share can be read from it."""
        return self.lines[0].runs[0].config

    @property
    def runs(self) -> list[Run]:
        return [run for line in self.lines for run in line.runs]

    @property
    def target(self) -> float:
        return self.config.target

    @property
    def baseline(self) -> Line | None:
        """The line that speed-ups are over: plain FedAvg."""
        return next((line for line in self.lines if line.method == "fedavg"), None)


def arrange(runs: Sequence[Run]) -> list[Setting]:
    """The runs as settings, in the order in which they come."""
    keys = list(dict.fromkeys(_key(run.config) for run in runs))
    groups = [[run for run in runs if _key(run.config) == key] for key in keys]
    varying = [name for i, name in enumerate(SETTING) if len({key[i] for key in keys}) > 1]
    return [Setting(_title(group[0].config, varying), _lines(group)) for group in groups]


def describe(config: Config) -> str:
    """A setting in words."""
    return ", ".join(_words(config, name) for name in SETTING if _words(config, name))


def _title(config: Config, varying: Sequence[str]) -> str:
    return ", ".join(_words(config, name) for name in varying if _words(config, name)) or describe(config)


def _words(config: Config, name: str) -> str:
    if name == "participation":
        return "" if config.cohort_size else f"{100 * (config.participation or 1):g} % a round"
    if name == "cohort_size":
        return f"cohorts of {config.cohort_size}" if config.cohort_size else ""
    value = getattr(config, name)
    return {"split": value or "natural split", "clients": f"{value} clients"}.get(name, str(value))


def _key(config: Config) -> tuple[object, ...]:
    return tuple(getattr(config, name) for name in SETTING)


def _lines(runs: Sequence[Run]) -> tuple[Line, ...]:
    """A line for each method; other settings that vary are written into its label. A seed counts once in a line."""
    others = [field.name for field in fields(Config) if field.name not in (*SETTING, *FREE)]
    varying = [name for name in others if len({getattr(run.config, name) for run in runs}) > 1]
    places: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        key = (run.config.method, *(getattr(run.config, name) for name in varying))
        members = places.setdefault(key, [])
        if run.config.seed not in [each.config.seed for each in members]:
            members.append(run)
    methods = {run.config.method for run in runs}
    names = [method.partition(":")[0] for method in methods]
    lines = []
    for (method, *values), members in places.items():
        text = str(method)
        name = text.partition(":")[0]
        extra = [f"{key} {value}" for key, value in zip(varying, values, strict=True)]
        lines.append(Line(", ".join([name if names.count(name) == 1 else text, *extra]), text, tuple(members)))
    return tuple(sorted(lines, key=_order))


def _order(line: Line) -> tuple[int, float]:
    """Methods as `feddc list` has them, α ascending; otherwise as they came."""
    known = list(METHODS)
    alpha = line.options.get("alpha", "0")
    return known.index(line.name) if line.name in known else len(known), float(alpha) if is_number(alpha) else 0.0


def is_number(text: str) -> bool:
    """Whether the text of an option is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
