"""The configuration of a run: the same keys as command-line options and in a TOML file."""

from __future__ import annotations

import dataclasses
import hashlib
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import specs
from ..errors import ConfigError, check, check_count, check_number, unknown
from .interval import Interval


def _option(default: Any, help: str) -> Any:
    return dataclasses.field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Config:
    """A run, fully resolved: nothing in it is left to a default elsewhere."""

    method: str = _option(
        "feddc", "method and its options, such as feddc:alpha=0.1 or feddc:server=yogi:server_lr=0.01"
    )
    data: str = _option("digits", "data set and its options")
    split: str | None = _option(
        None, "who holds what: iid, dirichlet:0.3, pathological:2, shards:2, any +unbalanced:0.3"
    )
    clients: int = _option(20, "number of clients")
    participation: float | None = _option(None, "probability with which each client joins a round")
    cohort_size: int | None = _option(None, "fixed number of clients a round, instead of --participation")
    rounds: int = _option(100, "number of rounds")
    epochs: int = _option(5, "local passes over a client's data")
    batch_size: int | None = _option(50, "local batch size, or none for the full batch")
    lr: float = _option(0.1, "local learning rate")
    lr_decay: float = _option(0.998, "factor on the learning rate after every round")
    weight_decay: float = _option(1e-3, "local weight decay")
    clip_norm: float | None = _option(10.0, "largest gradient norm, or none for no clipping")
    model: str = _option("fcn", "model and its options, such as fcn:200:200")
    seed: int = _option(0, "seed of split, initial model, cohorts and batches")
    target: float = _option(0.95, "accuracy that 'rounds to target' asks for")
    stop_at: float | None = _option(None, "stop once this accuracy is reached")
    evaluate_every: int = _option(1, "rounds between evaluations")
    executor: str = _option("auto", "who trains the clients: in-process, workers, vectorised, ray, or auto")
    workers: int | None = _option(None, "worker processes  [default: one for each core]")
    device: str = _option("auto", "where the vectorised executor computes")
    precision: str = _option("float32", "of the products in a local step: float32, or bf16 where the processor has it")
    diagnostics: bool = _option(True, "measure the clients' drift in every round")
    ray_address: str | None = _option(None, "the Ray cluster of --executor ray  [default: one on this machine]")
    dropout: float = _option(0.0, "probability with which a client of the cohort never answers")
    on_bad_update: str = _option("stop", "an update that is NaN, Inf or absurd: stop the run, or reject the update")
    checkpoint: str = _option("auto", "how often: every 10 (rounds), 5min, off, or auto: at most 2 % of the time")

    def __post_init__(self) -> None:
        check_count("clients", self.clients)
        check_count("rounds", self.rounds)
        check_count("evaluate_every", self.evaluate_every)
        check_count("seed", self.seed, 0)
        check_number("target", self.target, 0, 1, above=True)
        if self.stop_at is not None:
            check_number("stop_at", self.stop_at, 0, 1, above=True)
        Interval(self.checkpoint)


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

_NO_MATTER: dict[str, Any] = {
    "executor": "auto",
    "workers": None,
    "device": "auto",
    "target": 0.5,
    "checkpoint": "auto",
    "diagnostics": True,
    "ray_address": None,
}
_ADDED = ("dropout", "on_bad_update", "checkpoint", "diagnostics", "precision")

FIELDS = {field.name: field for field in dataclasses.fields(Config)}
_TYPES = typing.get_type_hints(Config)


def resolve(given: Mapping[str, Any]) -> Config:
    """A full configuration from the keys that were given, as text or values; the data set fills in what is usual."""
    values = {key: _typed(key, value) for key, value in given.items() if key not in SHORTHANDS}
    shorthands = {key: specs.convert(key, float, str(given[key])) for key in SHORTHANDS if given.get(key) is not None}
    data = str(values.get("data", Config.data)).partition(":")[0]
    usual = dict(DATA_DEFAULTS.get(data, {}))
    if values.get("cohort_size") is not None:
        check(values.get("participation") is None, "give only one of participation and cohort_size")
        usual.pop("participation", None)
    config = Config(**(usual | values))
    return dataclasses.replace(config, method=full_method(config.method, data, shorthands))


def full_method(text: str, data: str, shorthands: Mapping[str, float]) -> str:
    """The method's text with alpha or mu written into it: as given, or usual for the data set, or the method's own."""
    from ..algorithms import METHODS

    name, *parts = text.strip().split(":")
    known = specs.options(specs.lookup("method", METHODS, name))
    usual = {key: known[key].default for key in SHORTHANDS if key in known} | METHOD_DEFAULTS.get(data, {}).get(
        name, {}
    )
    written = {part.partition("=")[0] for part in parts if "=" in part}
    extra = {key: value for key, value in (usual | dict(shorthands)).items() if key in known and key not in written}
    if any("=" not in part for part in parts):
        extra = {}  # a positional option, as in feddc:0.1, says it already
    return ":".join([name, *parts, *(f"{key}={value}" for key, value in extra.items())])


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
        check(key not in values, f"in {path}: {key} is there twice, with - and with _")
        values[key] = value
    for key, value in values.items():
        if key not in known:
            raise ConfigError(f"in {path}: {unknown('key', key, known)}")
        check(not isinstance(value, dict), f"in {path}: {key} must be a value, not a table")
    return values


def to_toml(config: Config) -> str:
    """The configuration as a TOML file that ``--config`` reads back."""
    usual = DATA_DEFAULTS.get(config.data.partition(":")[0], {})
    return "".join(_lines(config, {key: usual.get(key, field.default) for key, field in FIELDS.items()}))


def _lines(config: Config, unsaid: Mapping[str, Any]) -> list[str]:
    """The lines of a TOML file, without keys that are None and are so if they are left out."""
    return [
        f"{key} = {_quoted('none' if value is None else value)}\n"
        for key, value in dataclasses.asdict(config).items()
        if value is not None or unsaid[key] is not None
    ]


def _quoted(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value).lower() if isinstance(value, bool) else repr(value)


def result_digest(config: Config) -> str:
    """A digest of the settings that change the result.

    It names the directories of stored results, so a setting that is added to ``Config`` must not change it where it has
    its default: list it in ``_ADDED``.
    """
    plain = dataclasses.replace(config, **_NO_MATTER)
    lines = _lines(plain, {key: field.default for key, field in FIELDS.items()})
    unsaid = {f"{key} = " for key in _ADDED if getattr(plain, key) == FIELDS[key].default}
    text = "".join(line for line in lines if not line.startswith(tuple(unsaid)))
    return hashlib.sha256(text.encode()).hexdigest()


def from_toml(path: Path) -> Config:
    """The configuration that ``to_toml`` wrote: complete, so that no data set fills anything in."""
    return Config(**{key: _typed(key, value) for key, value in read_toml(path, FIELDS).items()})


def _typed(key: str, value: Any) -> Any:
    if key not in FIELDS:
        raise unknown("key", key, [*FIELDS, *SHORTHANDS])
    kind = _TYPES[key]
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
