"""Runs put in order: settings (what the clients hold and who takes part), and in each a line per method, over seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..algorithms import METHODS, display_name
from ..data import NATURAL
from ..specs import Spec, is_number
from ..study.config import FIELDS, ROLES, Config
from .numbers.measure import Measure
from .runs import Point, Repeat, Run

SETTING = ("data", "split", "clients", "participation", "cohort_size")


class Reach(NamedTuple):
    """What one seed spent until a target; a bound where it did not get there within its rounds."""

    rounds: int
    moved: int
    seconds: float | None
    reached: bool


@dataclass(frozen=True)
class Line:
    """One method of a setting: its runs, one for each seed."""

    label: str
    method: str
    """The method's text, as configured: its name and its options."""
    runs: tuple[Run, ...]
    extra: tuple[tuple[str, object], ...] = ()
    """Other settings that vary between the lines."""

    @property
    def name(self) -> str:
        return Spec.parse(self.method).name

    @property
    def options(self) -> dict[str, str]:
        """The options in the method's text that have a name."""
        return Spec.parse(self.method).options

    @property
    def ran(self) -> tuple[Run, ...]:
        """The runs that have at least one round."""
        return tuple(run for run in self.runs if run.points)

    @property
    def ended(self) -> tuple[Run, ...]:
        """The runs that are over: what is judged."""
        return tuple(run for run in self.runs if run.ended)

    @property
    def drawn(self) -> tuple[Run, ...]:
        """The runs whose mean is drawn: those that are over, or, before the first one is, those under way."""
        return self.ended or self.ran

    @property
    def complete(self) -> bool:
        """Whether every seed was run to the end of its rounds: only then is the line compared with others."""
        return all(run.status == "finished" for run in self.runs)

    @property
    def measure(self) -> Measure:
        return self.runs[0].measure

    def best(self) -> dict[Repeat, float]:
        """The best score of each seed that is over."""
        return self._each(Run.best)

    def last(self) -> dict[Repeat, float]:
        """The mean of the last ten evaluations of each seed that is over."""
        return self._each(Run.last)

    def _each(self, number: Callable[[Run], float | None]) -> dict[Repeat, float]:
        return {run.repeat: each for run in self.ended if (each := number(run)) is not None}

    def reach(self, target: float) -> dict[Repeat, Reach]:
        """For each seed of which it is known: what it spent until the target, or that it did not get there.

        A run under way that has not reached the target yet is not among them: nobody knows.
        """
        found = {}
        for run in self.ran:
            point = run.reach(target)
            if point is not None:
                found[run.repeat] = Reach(point.round, point.moved, point.seconds, reached=True)
            elif run.ended:
                end: Point = run.points[-1]
                found[run.repeat] = Reach(run.bound, end.moved, end.seconds, reached=False)
        return found


@dataclass(frozen=True)
class Setting:
    """Runs that differ in method and seed, and in little else."""

    title: str
    lines: tuple[Line, ...]
    chosen: float | None = None
    """A target that was chosen for the report, in place of the one that the runs were configured with."""

    @property
    def config(self) -> Config:
        """The configuration of its first run: what the setting's runs share can be read from it."""
        return self.lines[0].runs[0].config

    @property
    def measure(self) -> Measure:
        return self.lines[0].measure

    @property
    def runs(self) -> list[Run]:
        return [run for line in self.lines for run in line.runs]

    @property
    def target(self) -> float:
        return self.config.target if self.chosen is None else self.chosen

    @property
    def goal(self) -> str:
        """The target in words."""
        return self.measure.goal(self.target)

    def baseline(self, line: Line | None = None) -> Line | None:
        """The line that speed-ups are over: plain FedAvg, with the same settings where several were run."""
        plain = [each for each in self.lines if each.method == "fedavg"]
        alike = [each for each in plain if line is not None and each.extra == line.extra]
        return next(iter(alike or plain), None)


def arrange(runs: Sequence[Run], target: float | None = None) -> list[Setting]:
    """The runs as settings, in the order in which they come; ``target`` replaces the one they were configured with."""
    keys = list(dict.fromkeys(_key(run.config) for run in runs))
    groups = [[run for run in runs if _key(run.config) == key] for key in keys]
    apart = [name for i, name in enumerate(SETTING) if len({key[i] for key in keys}) > 1]
    titles = [describe(group[0].config, apart) or describe(group[0].config) for group in groups]
    return [Setting(title, _lines(group, group), target) for title, group in zip(titles, groups, strict=True)]


def side_by_side(settings: Sequence[Setting]) -> list[Setting]:
    """The settings for one table: a line's name says in what it differs from any line of any of them."""
    every = [run for setting in settings for run in setting.runs]
    return [replace(setting, lines=_lines(setting.runs, every)) for setting in settings]


def describe(config: Config, names: Sequence[str] = SETTING) -> str:
    """A setting, or these parts of it, in words."""
    return ", ".join(words for name in names if (words := in_words(config, name)))


def in_words(config: Config, name: str) -> str:
    """One part of a setting, or nothing where there is nothing to say."""
    if name == "participation":
        return "" if config.cohort_size else f"{100 * (config.participation or 1):g} % a round"
    if name == "cohort_size":
        return f"cohorts of {config.cohort_size}" if config.cohort_size else ""
    if name == "clients" and Spec.parse(config.data).name in NATURAL:
        return ""
    value = getattr(config, name)
    return {"split": value or "natural split", "clients": f"{value} clients"}.get(name, str(value))


def varying(runs: Sequence[Run]) -> list[str]:
    """The settings, beside those of a setting and the method, in which these runs differ."""
    others = [name for name, role in ROLES.items() if role == "cell" and name not in (*SETTING, "method")]
    return [name for name in others if len({getattr(run.config, name) for run in runs}) > 1]


def said(extra: Sequence[tuple[str, object]]) -> list[str]:
    """Settings in words, except what is switched off."""
    on = [(key, value) for key, value in extra if value or value != FIELDS[key].default]
    return [f"{key} {value}" for key, value in on if (key, value) != ("compress", "none")]


def _key(config: Config) -> tuple[object, ...]:
    return tuple(getattr(config, name) for name in SETTING)


def _lines(runs: Sequence[Run], beside: Sequence[Run]) -> tuple[Line, ...]:
    """A line for each method; other settings that vary among the runs that are shown ``beside`` are written into its
    label, except what is switched off.

    A seed counts once in a line.
    """
    differing = varying(beside)
    places: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        key = (_same(run.config.method), *(getattr(run.config, name) for name in differing))
        members = places.setdefault(key, [])
        if run.repeat not in [each.repeat for each in members]:
            members.append(run)
    labels = _labels([run.config.method for run in beside])
    lines = []
    for (method, *values), members in places.items():
        extra = tuple(zip(differing, values, strict=True))
        label = ", ".join([labels[method], *said(extra)])
        lines.append(Line(label, members[0].config.method, tuple(members), extra))
    return tuple(sorted(lines, key=_order))


def _same(method: str) -> tuple[str, frozenset[str]]:
    """What texts of one method have in common: its options may be written in any order."""
    spec = Spec.parse(method)
    return spec.name, frozenset(spec.words)


def _labels(methods: Sequence[str]) -> dict[tuple[str, frozenset[str]], str]:
    """Methods as people write them, with the options in which two lines of the same name differ; the whole names of
    two that people would write the same."""
    found = {_same(method): Spec.parse(method) for method in reversed(methods)}  # as it was written first
    labels = {}
    for key, spec in found.items():
        name = display_name(spec.name)
        alone = all(each.name == spec.name for each in found.values() if display_name(each.name) == name)
        twins = [each.words for each in found.values() if each.name == spec.name]
        apart = [word.replace("alpha=", "α=") for word in spec.words if not all(word in twin for twin in twins)]
        labels[key] = " ".join([name if alone else spec.name, *apart])
    return labels


def _order(line: Line) -> tuple[int, float]:
    """Methods as `feddc list` has them, α ascending; otherwise as they came."""
    known = list(METHODS)
    alpha = line.options.get("alpha", "0")
    return known.index(line.name) if line.name in known else len(known), float(alpha) if is_number(alpha) else 0.0
