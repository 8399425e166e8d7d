"""The configuration of a run: the same keys as command-line options and in a TOML file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from .. import specs
from ..errors import ConfigError, check, check_count, check_number, unknown
from ..options import Keywords, LocalTraining, Options, Role, option
from .interval import Interval


@dataclass(frozen=True)
class Config(LocalTraining, Options):
    """A run, fully resolved: nothing in it is left to a default elsewhere."""

    method: str = option("feddc", "method and its options, such as feddc:alpha=0.1 or feddc:server=yogi:server_lr=0.01")
    data: str = option("digits", "data set and its options")
    split: str | None = option(
        None, "how samples are divided: iid, dirichlet:0.3, pathological:2, shards:2; each also with +unbalanced:0.3"
    )
    clients: int = option(20, "number of clients")
    split_seed: int | None = option(None, "seed of the split  [default: --seed]", "seed")
    model_seed: int | None = option(None, "seed of the initial model  [default: --seed]", "seed")
    holdout: float = option(0.0, "share of every client's samples to evaluate the model on, never trained on")
    validation: float = option(0.0, "share of every client's samples set aside for choosing hyper-parameters")
    model: str = option("fcn", "model and its options, such as fcn:200:200")
    rounds: int = option(100, "number of rounds")
    stop_at: float | None = option(None, "stop once this score is reached", "records")
    target: float = option(0.95, "target of 'rounds to target': for accuracy a share, such as 0.95", "run")
    checkpoint: str = option(
        "auto", "checkpoint interval: 10 (rounds), 5min, off, or auto (at most 2 % of the time)", "run"
    )
    keep: int = option(0, "number of last rounds whose checkpoints are kept, for `feddc resume --rollback`", "run")

    def __post_init__(self) -> None:
        LocalTraining.__post_init__(self)
        check(
            not callable(self.rates),
            "a learning rate that is a lambda or a function of this script cannot be stored in a run directory: "
            "put the function in a module, or give a list of rates",
        )
        Options.__post_init__(self)
        check_count("clients", self.clients)
        check_count("rounds", self.rounds)
        check_count("keep", self.keep, 0)
        check_count("split_seed", self.split_seed, 0, optional=True)
        check_count("model_seed", self.model_seed, 0, optional=True)
        check_number("target", self.target, -1e300)
        check_number("stop_at", self.stop_at, -1e300, optional=True)
        Interval(self.checkpoint)

    def seed_of(self, what: Literal["split", "model"]) -> int:
        """The seed of the split or of the initial model: its own, or the one of the run."""
        own = self.split_seed if what == "split" else self.model_seed
        return self.seed if own is None else own

    @property
    def training(self) -> LocalTraining:
        """How clients train."""
        return LocalTraining(**{each.name: getattr(self, each.name) for each in dataclasses.fields(LocalTraining)})

    @property
    def options(self) -> Keywords:
        """How the federation is simulated, as ``simulate`` takes it."""
        found: Any = {each.name: getattr(self, each.name) for each in dataclasses.fields(Options)}
        return cast(Keywords, found)


# What a data set is usually run with, where it differs from the defaults above: for image data, the paper's settings.
_IMAGES = {"clients": 100, "split": "dirichlet:0.3", "participation": 0.15, "rounds": 600, "target": 0.98}
DATA_DEFAULTS: dict[str, dict[str, Any]] = {
    "mnist": _IMAGES,
    "fashion-mnist": _IMAGES | {"rounds": 300, "target": 0.89},
    "emnist-l": _IMAGES | {"rounds": 300, "target": 0.94},
    "cifar10": _IMAGES | {"model": "cnn", "rounds": 1000, "target": 0.8},
    "cifar100": _IMAGES | {"model": "cnn", "rounds": 1000, "target": 0.4},
    "tiny-imagenet": {"clients": 20, "model": "resnet18", "split": "dirichlet:0.3", "rounds": 10, "target": 0.4},
    "digits": {"split": "dirichlet:0.1", "participation": 0.3, "batch_size": 10, "model": "fcn:100"},
    "heart-disease": {
        "model": "linear",
        "rounds": 30,
        "batch_size": 16,
        "lr": 0.03,
        "lr_decay": 1.0,
        "target": 0.75,
    },
    "mnist-writers": {"participation": 0.1, "model": "fcn:200:200", "batch_size": 10, "target": 0.95},
    "shakespeare": {
        "cohort_size": 10,
        "model": "lstm",
        "lr": 0.8,
        "epochs": 1,
        "batch_size": 10,
        "weight_decay": 0.0,
        "target": 0.4,
    },
    "synthetic": {
        "model": "linear",
        "batch_size": 10,
        "epochs": 10,
        "lr_decay": 1.0,
        "weight_decay": 1e-5,
        "target": 0.98,
    },
}
METHOD_DEFAULTS: dict[str, dict[str, dict[str, float]]] = {
    "emnist-l": {"feddc": {"alpha": 0.2}},
    "cifar10": {"feddc": {"alpha": 0.01}},
    "cifar100": {"feddc": {"alpha": 0.01}},
    "tiny-imagenet": {"feddc": {"alpha": 0.01}},
    "digits": {"feddc": {"alpha": 0.1}, "feddyn": {"alpha": 0.1}, "fedadam": {"lr": 0.03}, "fedyogi": {"lr": 0.03}},
    "synthetic": {"feddc": {"alpha": 0.005}, "feddyn": {"alpha": 0.01}},
}
SHORTHANDS = {"alpha": "strength of FedDC's penalty and FedDyn's regulariser", "mu": "strength of FedProx's pull"}

_OWN = Config.__annotations__
FIELDS = {each.name: each for each in sorted(dataclasses.fields(Config), key=lambda each: each.name not in _OWN)}
"""The fields of a configuration by name: those of the experiment first, then those of the simulation."""
TYPES = typing.get_type_hints(Config)
ROLES: dict[str, Role] = {name: each.metadata["role"] for name, each in FIELDS.items()}

# The digest began with these keys, which it always has, in this order. A key that was added later is part of it where
# it does not have its default, so that stored results keep their names.
_FIRST: tuple[str, ...] = (
    "method",
    "data",
    "split",
    "clients",
    "participation",
    "cohort_size",
    "rounds",
    "epochs",
    "batch_size",
    "lr",
)
_FIRST += ("lr_decay", "weight_decay", "clip_norm", "model", "seed", "target", "stop_at", "evaluate_every")
_FIRST += ("executor", "device")


def resolve(given: Mapping[str, Any]) -> Config:
    """A full configuration from the keys that were given, as text or values; the data set fills in what is usual."""
    values = {key: _typed(key, value) for key, value in given.items() if key not in SHORTHANDS}
    shorthands = {key: specs.convert(key, float, str(given[key])) for key in SHORTHANDS if given.get(key) is not None}
    data = specs.Spec.parse(str(values.get("data", Config.data))).name
    usual = dict(DATA_DEFAULTS.get(data, {}))
    if values.get("cohort_size") is not None:
        check(values.get("participation") is None, "give only one of participation=… and cohort_size=…")
        usual.pop("participation", None)
    config = Config(**(usual | values))
    return dataclasses.replace(config, method=full_method(config.method, data, shorthands))


def full_method(text: str, data: str, shorthands: Mapping[str, float]) -> str:
    """The method's text with alpha or mu written into it: as given, or usual for the data set, or the method's own."""
    from ..algorithms import METHODS

    spec = specs.Spec.parse(text)
    known = specs.options(specs.lookup("method", METHODS, spec.name))
    usual = {key: known[key].default for key in SHORTHANDS if key in known}
    usual |= METHOD_DEFAULTS.get(data, {}).get(spec.name, {}) | dict(shorthands)
    extra = {key: value for key, value in usual.items() if key in known and key not in spec.options}
    if len(spec.options) < len(spec.words):
        extra = {}  # an option without a name, as in feddc:0.1, sets it already
    return str(specs.Spec(spec.name, (*spec.words, *(f"{key}={value}" for key, value in extra.items()))))


def read_toml(path: Path, known: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a TOML file, each checked against ``known``; ``batch-size`` and ``batch_size`` are the same key."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # not TOML, not text, or a number or nesting without end
        raise ConfigError(f"{path} is not a TOML file: {error}") from None
    values: dict[str, Any] = {}
    for written, value in content.items():
        key = written.replace("-", "_")
        check(key not in values, f"in {path}: {key} is given twice ({key.replace('_', '-')} and {key})")
        values[key] = value
    for key, value in values.items():
        if key not in known:
            raise ConfigError(f"in {path}: {unknown('key', key, known)}")
        check(not isinstance(value, dict), f"in {path}: {key} must be a value, not a table")
    return values


def to_toml(config: Config) -> str:
    """The configuration as a TOML file that ``--config`` reads back."""
    usual = DATA_DEFAULTS.get(specs.Spec.parse(config.data).name, {})
    unsaid = {key for key, field in FIELDS.items() if usual.get(key, field.default) is None}
    return "".join(_line(config, key) for key in FIELDS if getattr(config, key) is not None or key not in unsaid)


def _line(config: Config, key: str) -> str:
    value = getattr(config, key)
    if isinstance(value, bool | float):  # float: repr, as 1e-05 is TOML but numpy's str is not
        return f"{key} = {str(value).lower() if isinstance(value, bool) else repr(float(value))}\n"
    text = json.dumps("none" if value is None else value, ensure_ascii=False)
    return f"{key} = {text}\n".replace("\x7f", "\\u007f")  # the one character that JSON may have and TOML may not


def result_digest(config: Config) -> str:
    """A digest of the settings that change the result; it names the directories of stored results."""
    usual: dict[str, Any] = {key: FIELDS[key].default for key, role in ROLES.items() if role == "run"}
    plain = dataclasses.replace(config, **usual | {"target": 0.5})  # 0.5 is what the first results were named with
    added = [key for key, field in FIELDS.items() if key not in _FIRST and getattr(plain, key) != field.default]
    keys = [
        key for key in (*_FIRST, *sorted(added)) if getattr(plain, key) is not None or FIELDS[key].default is not None
    ]
    return hashlib.sha256("".join(_line(plain, key) for key in keys).encode()).hexdigest()


def group_key(config: Config) -> tuple[object, ...]:
    """What repetitions of one experiment have in common: runs with the same key differ in their seeds at most.

    They may also differ in how they were computed and judged, and in which rounds were kept.
    """
    return tuple(getattr(config, key) for key, role in ROLES.items() if role == "cell")


def seed_key(config: Config) -> tuple[object, ...]:
    """Which repetition of its experiment a run is."""
    return tuple(getattr(config, key) for key, role in ROLES.items() if role == "seed")


def from_toml(path: Path) -> Config:
    """The configuration that ``to_toml`` wrote: complete, so that no data set fills anything in."""
    return Config(**{key: _typed(key, value) for key, value in read_toml(path, FIELDS).items()})


def _typed(key: str, value: Any) -> Any:
    if key not in FIELDS:
        raise unknown("key", key.replace("_", "-"), [each.replace("_", "-") for each in (*FIELDS, *SHORTHANDS)])
    kind = TYPES[key]
    check(value != "", f"{key} must not be empty")
    if isinstance(value, str):
        return specs.convert(key, kind, value)
    if isinstance(value, int) and not isinstance(value, bool) and float in (kind, *typing.get_args(kind)):
        return float(value)
    members = typing.get_args(kind) or (kind,)
    check(type(value) in members, f"{key} must be {_noun(members[0])}, not {value!r}")
    return value


def _noun(kind: Any) -> str:
    return {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}.get(kind, str(kind))
