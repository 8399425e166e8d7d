"""Where the objects of a run come from: names that a registry or a module knows, or Python objects that were given."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import nn

from ..algorithms import Algorithm, make_method
from ..data import Federation, load
from ..engine import Simulation
from ..errors import ConfigError, RunError, check_number
from ..models import make_model
from .config import Config

MakeModel: TypeAlias = Callable[[int], nn.Module]
MakeFederation: TypeAlias = Callable[[int], Federation]


class Source(Protocol):
    """Makes the simulation that a configuration describes; a mistake in it shows here, before anything is written."""

    def simulation(self, config: Config) -> Simulation: ...

    def method(self, config: Config) -> Algorithm: ...

    named: bool
    """Whether the configuration names everything, so that `feddc resume` can continue it."""

    def given(self, config: Config) -> Mapping[str, str]:
        """Digests of what the configuration cannot name; empty where it names everything."""
        ...


class Named:
    """Objects by name. The federation is kept while consecutive configurations use the same one."""

    named = True
    _made: ClassVar[WeakValueDictionary[str, Named]] = WeakValueDictionary()

    def __init__(self, data_dir: Path | None = None) -> None:
        self.data_dir = data_dir
        self._key: tuple[object, ...] | None = None
        self._federation: Federation | None = None
        self._token = secrets.token_hex(8)
        Named._made[self._token] = self

    def __reduce__(self) -> tuple[Callable[[str, Path | None], Named], tuple[str, Path | None]]:
        """A copy of this process has this source, and its data, already; any other process loads its own."""
        return _sent, (self._token, self.data_dir)

    def federation(self, config: Config) -> Federation:
        """The federation of a configuration."""
        seed = config.seed_of("split")
        key = (config.data, config.clients, config.split, config.holdout, config.validation, seed)
        if key != self._key or self._federation is None:
            self._federation, self._key = None, key  # let go of the old one before the new one is loaded
            options: Any = {"clients": config.clients, "split": config.split, "seed": seed}
            whole = load(config.data, **options, data_dir=self.data_dir)
            self._federation = whole.hold_out(config.holdout, config.validation, seed=seed)
        return self._federation

    def simulation(self, config: Config) -> Simulation:
        federation = self.federation(config)
        model = make_model(config.model, federation.shape, federation.classes, config.seed_of("model"))
        arguments: Any = {"rounds": config.rounds, "training": config.training, **config.options}
        return _judged(Simulation(self.method(config), model, federation, **arguments), config)

    def method(self, config: Config) -> Algorithm:
        return make_method(config.method)

    def given(self, config: Config) -> Mapping[str, str]:
        return {}


def _sent(token: str, data_dir: Path | None) -> Named:
    return Named._made.get(token) or Named(data_dir)


class Objects:
    """Objects that were given from Python. ``methods`` are by the text of their configuration.

    A model or federation may be a function of the seed, which is then called for every seed.
    """

    named = False

    def __init__(
        self,
        methods: dict[str, Algorithm],
        model: nn.Module | str | MakeModel,
        federation: Federation | MakeFederation,
        more: Mapping[str, Any],
    ) -> None:
        """``more`` are arguments of the simulation that a configuration has no place for: masks, callbacks."""
        self.methods, self._model, self._federation = methods, model, federation
        self.more = more
        self._kept: tuple[int, Federation] | None = None

    def federation(self, seed: int) -> Federation:
        """The federation of a seed."""
        if isinstance(self._federation, Federation) or not callable(self._federation):
            return self._federation
        if self._kept is None or self._kept[0] != seed:
            self._kept = (seed, self._federation(seed))
        return self._kept[1]

    def model(self, seed: int) -> nn.Module:
        """The initial model of a seed."""
        if isinstance(self._model, str):
            federation = self.federation(seed)
            return make_model(self._model, federation.shape, federation.classes, seed)
        return self._model if isinstance(self._model, nn.Module) or not callable(self._model) else self._model(seed)

    def simulation(self, config: Config) -> Simulation:
        arguments: Any = {"rounds": config.rounds, "training": config.training, **config.options}
        arguments |= self.more
        model, federation = self.model(config.seed), self.federation(config.seed)
        return _judged(Simulation(self.method(config), model, federation, **arguments), config)

    def method(self, config: Config) -> Algorithm:
        return self.methods[config.method]

    def given(self, config: Config) -> Mapping[str, str]:
        model = self.model(config.seed)
        return {
            "method": fingerprint(self.method(config)),
            "model": fingerprint([repr(model), model.state_dict()]),
            "data": fingerprint(self.federation(config.seed)),
            **{key: fingerprint(value) for key, value in self.more.items() if key != "callbacks" and value is not None},
        }


def _judged(simulation: Simulation, config: Config) -> Simulation:
    """Refuse a target that the score cannot reach: an accuracy of 95 is meant to be 0.95."""
    for name, value in (("target", config.target), ("stop_at", config.stop_at)):
        if value is not None and simulation.score.percent:
            check_number(name, value, 0, 1, above=True)
    return simulation


def fingerprint(value: Any) -> str:
    """A digest of a value: numbers, texts and tensors by what they hold, objects by their class and their fields."""
    found = hashlib.sha256()
    _feed(found, value, 8)
    return found.hexdigest()[:16]


def _feed(found: Any, value: Any, depth: int) -> None:
    if isinstance(value, torch.Tensor):
        found.update(f"{value.dtype}{tuple(value.shape)}".encode())
        found.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    elif isinstance(value, np.ndarray):
        found.update(f"{value.dtype}{value.shape}".encode())
        found.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Mapping | list | tuple):
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, each in pairs:
            found.update(f"{key!r}:".encode())
            _feed(found, each, depth)
    elif value is None or isinstance(value, str | bytes | int | float):
        found.update(repr(value).encode())
    else:
        kind = value if callable(value) and hasattr(value, "__qualname__") else type(value)
        found.update(f"{kind.__module__}.{kind.__qualname__}".encode())
        if depth and kind is not value:  # an object that holds itself must come to an end
            _feed(found, vars(value) if hasattr(value, "__dict__") else {}, depth - 1)


def refuse_other(path: Path, then: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse to continue or return a run that was begun with other objects."""
    if then and not now:
        raise RunError(
            f"{path} was begun from Python, with objects of its own: make the same call again to continue it"
        )
    for what in (*now, *then):
        if then.get(what) != now.get(what):
            raise ConfigError(f"{path} holds a run with another {what}: choose another out, or remove it")
