"""What a run on Flower is asked to do, and how the server tells the clients."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .. import specs
from ..algorithms import Algorithm
from ..engine import LocalTraining
from ..errors import ConfigError, check, check_count, check_number, unknown
from ..options import Compress, Trust

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}")
"""An experiment's name: it is also the name of folders, on the server and on every client."""


Late: TypeAlias = Literal["refuse", "use"]


@dataclass(frozen=True)
class Settings(Trust):
    """The settings of a run. Every one can also be a key of the app's config (``cohort-size = 2``), which wins.

    An experiment begins with ``clients`` SuperNodes, with partition-id 0 to ``clients`` − 1, and waits ``wait`` seconds
    for all of them. Others may join later, and count from then on; a member that was away for ``leave_after`` seconds
    is one no more. A round closes when all of its cohort have answered, or after ``answer_within`` seconds with those
    that have, if they are at least ``min_answers``; an answer that comes ``late`` is refused, or used in the round in
    which it arrives. ``nodes`` binds clients to registered nodes ("0=1234 1=5678"); a client that says it has more than
    ``most_samples`` is not let in. ``experiment`` names what a later run continues; ``folder`` is where the server
    keeps it (by default in Flower's home folder). ``test_sites`` has every site judge the model on its held-out
    samples. ``compress`` ("bf16", "int8") has vectors travel in fewer bytes, both ways, as in a simulation. ``robust``,
    ``privacy``, ``epsilon``, ``delta`` and ``secure`` ("masked") are those of a simulation; a site may ask for more
    clip and noise than the server does. The last ``keep`` rounds can be taken back, from server and clients, by a run
    with ``rollback``, which may have another ``robust``. With ``simulation`` a run that meets a real site ends before
    anything is trained.
    """

    clients: int = 3
    rounds: int = 10
    experiment: str = "feddc"
    participation: float | None = None
    cohort_size: int | None = None
    seed: int = 0
    evaluate_every: int = 1
    min_answers: int = 1
    wait: float = 600.0
    answer_within: float = 600.0
    late: Late = "refuse"
    leave_after: float = 86_400.0
    nodes: str = ""
    most_samples: int = 10_000_000
    test_sites: bool = True
    compress: Compress = "none"
    simulation: bool = False
    keep: int = 5
    rollback: int = 0
    folder: str | None = None
    training: LocalTraining = LocalTraining()

    def __post_init__(self) -> None:
        for name in ("clients", "rounds", "evaluate_every", "min_answers", "most_samples"):
            check_count(name, getattr(self, name))
        for name in ("seed", "keep", "rollback"):
            check_count(name, getattr(self, name), 0)
        if self.compress not in typing.get_args(Compress):
            raise unknown("compress", str(self.compress), typing.get_args(Compress))
        check(self.attack is None, "attack poisons simulated clients only")
        check_number("wait", self.wait, 0)
        check_number("answer_within", self.answer_within, 0, above=True)
        check_number("leave_after", self.leave_after, 0, above=True)
        known = typing.get_args(Late)
        check(self.late in known, f"late must be {' or '.join(known)}, not {self.late!r}")
        check(
            NAME.fullmatch(self.experiment) is not None,
            f"experiment must be letters, digits, '.', '_' and '-', not {self.experiment!r}",
        )


def override(settings: Settings, config: Mapping[str, Any]) -> Settings:
    """The settings with those keys of a run's config that are settings; ``"none"`` is no value."""
    given = {key.replace("-", "_"): value for key, value in config.items()}
    training = dataclasses.replace(settings.training, **_known(LocalTraining, given))
    return dataclasses.replace(settings, training=training, **_known(Settings, given))


def _known(kind: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    types = {name: each for name, each in typing.get_type_hints(kind).items() if name != "training"}
    return {name: specs.convert(name, each, str(given[name])) for name, each in types.items() if name in given}


def method_config(algorithm: Algorithm) -> dict[str, Any]:
    """A method's class and hyper-parameters as settings of a message; its server optimiser stays on the server."""
    config: dict[str, Any] = {"method": type(algorithm).__name__}
    for field in dataclasses.fields(algorithm):  # type: ignore[arg-type]
        value = getattr(algorithm, field.name)
        if field.name == "server" or value is None:
            continue
        check(isinstance(value, bool | int | float | str), f"{config['method']}.{field.name} cannot be sent to clients")
        config[f"method.{field.name}"] = value
    return config


def method_from(config: Mapping[str, Any], methods: Mapping[str, Any]) -> Algorithm:
    """The method that a message names, from the classes that this client has; it runs no other."""
    name = str(config.get("method"))
    if name not in methods:
        raise unknown("method", name, methods)
    values = {key.removeprefix("method."): value for key, value in config.items() if key.startswith("method.")}
    try:
        method: Algorithm = methods[name](**values)
    except TypeError as error:
        raise ConfigError(f"method '{name}' does not take these options: {error}") from None
    return method


def training_config(training: LocalTraining) -> dict[str, Any]:
    """The local training as settings of a message; what is None is left out."""
    _check_rates(training)
    values = dataclasses.asdict(training)
    return {f"training.{name}": value for name, value in values.items() if value is not None}


def training_from(config: Mapping[str, Any]) -> LocalTraining:
    """The local training that a message asks for."""
    absent = dict.fromkeys((field.name for field in dataclasses.fields(LocalTraining)), None)
    given = {key.removeprefix("training."): value for key, value in config.items() if key.startswith("training.")}
    if ":" in str(given.get("rates", "")):
        raise ConfigError("the server names a function for the learning rate: a client imports nothing at its request")
    try:
        return LocalTraining(**absent | given)  # type: ignore[arg-type]
    except TypeError as error:
        raise ConfigError(f"the server asks for a local training that is not known here: {error}") from None


def _check_rates(training: LocalTraining) -> None:
    """Refuse a function for the learning rate: clients import nothing at a server's request."""
    good = training.rates is None or (isinstance(training.rates, str) and ":" not in training.rates)
    check(good, "on Flower the learning rate of each round is a list of numbers, not a function")
