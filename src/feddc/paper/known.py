"""What the FedDC paper prints for a run, where the run is one of its cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from ..specs import Spec
from ..study.cells import Number
from ..study.config import Config, group_key
from .studies import STUDIES


@dataclass(frozen=True)
class Known:
    """The paper's numbers for one configuration."""

    rounds: Mapping[float, Number] = field(default_factory=dict)
    """Rounds to a target accuracy."""
    accuracy: Number | None = None
    """Best accuracy in percent."""
    budget: int = 0
    """The rounds that the paper ran."""


def known(config: Config) -> Known:
    """The paper's numbers for this configuration.

    Nothing but the seed, the number of rounds and the precision may differ, of which the paper says nothing, and the
    file of initial weights, which is somewhere else on every machine.
    """
    model = Spec.parse(config.model)
    model = replace(model, words=tuple(word for word in model.words if not word.startswith("weights=")))
    return _cells().get(experiment(replace(config, model=str(model), precision=Config.precision)), Known())


@cache
def _cells() -> dict[tuple[object, ...], Known]:
    found: dict[tuple[object, ...], Known] = {}
    for study in STUDIES.values():
        for cell in study():
            key = experiment(cell.config)
            old = found.get(key, Known())
            numbers = dict(zip(cell.targets, cell.published, strict=False)) if cell.targets else {}
            rounds = {**old.rounds, **{goal: number for goal, number in numbers.items() if number is not None}}
            best = None if cell.targets else next(iter(cell.published), None)
            found[key] = Known(rounds, old.accuracy or best, max(old.budget, cell.config.rounds))
    return found


def experiment(config: Config) -> tuple[object, ...]:
    """What runs of one cell have in common: all but the seed, the number of rounds, and when to stop."""
    return group_key(replace(config, rounds=1))
