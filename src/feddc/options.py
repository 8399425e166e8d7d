"""The options of a simulation, each written once: name, type, default, what it is for, and its role.

To add one: a field here, in the class that it belongs to. The command line, configuration files, run directories, the
names of stored results and the grouping of a report's runs all derive from these fields and from those of
``study.config.Config``, which inherits them.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from .errors import check, check_count, check_number, unknown
from .rates import Rates, as_rates, rate_in

if TYPE_CHECKING:
    from .types import Schedule

Role: TypeAlias = Literal["cell", "records", "seed", "run"]
"""What it means for two runs to differ in an option:

cell     they are different experiments
records  they are the same course of training, of which other rounds are kept
seed     they are repetitions of one experiment
run      they have the same result: the option only says how it is computed, watched or judged
"""
Precision: TypeAlias = Literal["float32", "bf16"]
Optimizer: TypeAlias = Literal["sgd", "adam", "adamw"]
Evaluate: TypeAlias = Literal["server", "clients", "both"]
OnBadUpdate: TypeAlias = Literal["reject", "stop"]
Compress: TypeAlias = Literal["none", "bf16", "int8"]


def option(default: Any, help: str, role: Role = "cell") -> Any:
    """A field of a dataclass of options; ``help`` is what the command line says of it."""
    return dataclasses.field(default=default, metadata={"help": help, "role": role})


@dataclass(frozen=True)
class LocalTraining:
    """How clients train; the defaults are the paper's for image data.

    ``batch_size=None`` is the full batch, ``clip_norm=None`` no clipping. Round t (from 1) uses the learning rate lr
    · lr_decay^(t−1). It rises to that over the first ``warmup`` rounds and, with ``cosine=T``, falls along half a
    cosine until round T. A list, or a function of the round, in place of ``lr`` (or as ``rates``) gives the rate of
    every round, without decay; the last value of a list is kept. ``steps=100`` makes 100 updates in a round, whatever
    the client's size, instead of ``epochs`` passes. ``optimizer`` is restarted in every round; with "adam"
    ``weight_decay`` is part of the gradient, with "adamw" it is not. ``sam=0.05`` makes steps sharpness-aware, at
    twice the cost: the gradient is taken at that distance uphill. ``precision="bf16"`` computes products and
    convolutions in bfloat16, everything else in float32.
    """

    epochs: int = option(5, "local passes over a client's data")
    batch_size: int | None = option(50, "local batch size, or none for the full batch")
    lr: float = option(0.1, "local learning rate")
    lr_decay: float = option(0.998, "factor on the learning rate after every round")
    weight_decay: float = option(1e-3, "local weight decay")
    clip_norm: float | None = option(10.0, "largest gradient norm, or none for no clipping")
    steps: int | None = option(None, "local updates in a round, instead of --epochs")
    optimizer: Optimizer = option("sgd", "optimiser of the local steps: sgd, adam or adamw")
    nesterov: bool = option(False, "use Nesterov's form of --momentum")
    warmup: int = option(0, "rounds over which the learning rate rises to --lr")
    cosine: int | None = option(None, "round until which the learning rate falls along half a cosine")
    rates: Rates | None = option(None, "learning rate of each round instead of --lr: 0.1,0.05,0.01, or module:function")
    momentum: float = option(0.0, "momentum of the local steps, restarted in every round")
    sam: float = option(0.0, "radius of sharpness-aware local steps (as in FedSAM), or 0 for plain steps")
    precision: Precision = option(
        "float32", "precision of a local step's products: float32, or bf16 on hardware that has it"
    )

    def __post_init__(self) -> None:
        check_count("epochs", self.epochs, high=10**6)  # the order of all passes is planned in memory
        check_count("batch_size", self.batch_size, optional=True)
        check_count("steps", self.steps, high=10**9, optional=True)
        check_count("warmup", self.warmup, 0)
        check_count("cosine", self.cosine, optional=True)
        check_one_of("optimizer", self.optimizer, Optimizer)
        lr: Any = self.lr
        listed = callable(lr) or (hasattr(lr, "__len__") and not isinstance(lr, str))
        if listed or self.rates is not None:
            rates = as_rates(lr if listed else self.rates)
            alone = not self.warmup and self.cosine is None
            check(alone, "rates say the learning rate of every round: leave warmup and cosine out")
            object.__setattr__(self, "rates", rates)
            object.__setattr__(self, "lr", rate_in(rates, 1))
        check_number("lr", self.lr, 0, above=True)
        check_number("lr_decay", self.lr_decay, 0, 1, above=True)
        check_number("weight_decay", self.weight_decay, 0)
        check_number("clip_norm", self.clip_norm, 0, above=True, optional=True)
        check_number("momentum", self.momentum, 0, 1)
        check(self.momentum < 1, f"momentum must be below 1, not {self.momentum}")
        check_number("sam", self.sam, 0)
        check_one_of("precision", self.precision, Precision)

    def lr_in(self, round: int) -> float:
        """The learning rate of a round (from 1)."""
        if self.rates is not None:
            return rate_in(as_rates(self.rates), round)
        rate = self.lr * self.lr_decay ** (round - 1)
        if round <= self.warmup:
            rate *= round / (self.warmup + 1)
        if self.cosine is not None:
            rate *= (1 + math.cos(math.pi * min(round - 1, self.cosine - 1) / self.cosine)) / 2
        return rate

    def schedule(self, round: int, nominal: int) -> Schedule:
        """What everyone knows of a round: its number (from 1), K, η and η_t."""
        from .types import Schedule  # brings torch, for which the command line's help should not wait

        return Schedule(round=round, nominal=nominal, lr=self.lr, rate=self.lr_in(round), momentum=self.momentum)

    def nominal_steps(self, sizes: Any) -> int:
        """K = epochs × ceil(mean samples / batch size), or ``steps``: one number for all clients."""
        if self.steps is not None:
            return self.steps
        per_epoch = 1 if self.batch_size is None else math.ceil(float(sizes.mean()) / self.batch_size)
        return self.epochs * per_epoch


@dataclass(frozen=True)
class Sampling:
    """Who takes part in a round, and who of them answers."""

    participation: float | None = option(None, "probability with which each client joins a round")
    cohort_size: int | None = option(None, "fixed number of clients per round, instead of --participation")
    dropout: float = option(0.0, "probability with which a client of the cohort never answers")

    def __post_init__(self) -> None:
        check_number("dropout", self.dropout, 0, 1)
        check(self.dropout < 1, "dropout must be below 1: with 1 nobody would ever answer")


@dataclass(frozen=True)
class Trust:
    """What protects the federation from its members, and them from it."""

    robust: str | None = option(None, "robust aggregation: norm:1, trimmed-mean:0.2, median, centered-clip:1")
    attack: str | None = option(
        None, "simulated poisoned clients: sign-flip:3:from=5:until=8, scale, constant, little, labels"
    )
    privacy: str | None = option(None, "differential privacy: central:clip=1:noise=1.1, distributed, local")
    epsilon: float | None = option(None, "privacy budget: the noise is chosen for it, and no run exceeds it")
    delta: float | None = option(None, "probability with which epsilon may not hold  [default: 1e-5]")
    secure: str | None = option(None, "round updates as secure aggregation does: simulated:bits=24:range=8")


@dataclass(frozen=True)
class Compute:
    """Which executor trains the clients, and on which device; the result is the same."""

    executor: str = option("auto", "how clients are trained: in-process, workers, vectorised, ray, or auto", "run")
    workers: int | None = option(None, "worker processes  [default: one for each core]", "run")
    device: str = option("auto", "device of the vectorised and in-process executors: auto, cpu, cuda or mps", "run")
    ray_address: str | None = option(None, "the Ray cluster of --executor ray  [default: one on this machine]", "run")


@dataclass(frozen=True)
class Options(Sampling, Compute, Trust):
    """How a federation is simulated, apart from the method, the model, the data, and how clients train."""

    seed: int = option(0, "seed of split, initial model, cohorts and batches", "seed")
    evaluate_every: int = option(1, "rounds between evaluations", "records")
    evaluate: Evaluate = option(
        "both", "where to evaluate: the server's test set, what clients hold out, or both", "records"
    )
    evaluate_precision: Precision = option(
        "float32", "precision of the products of an evaluation: float32, or bf16 on hardware that has it", "records"
    )
    personal: bool = option(False, "also score each client's own model after its local training", "records")
    diagnostics: bool = option(True, "measure the clients' drift in every round", "run")
    on_bad_update: OnBadUpdate = option(
        "stop", "on an update that is NaN, Inf or too large: stop the run, or reject it"
    )
    compress: Compress = option("none", "how vectors are sent, both ways: bf16 or int8, rounded at random, or none")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("seed", self.seed, 0)
        check_count("evaluate_every", self.evaluate_every)
        check_one_of("evaluate", self.evaluate, Evaluate)
        check_one_of("evaluate_precision", self.evaluate_precision, Precision)
        check_one_of("compress", self.compress, Compress)
        check_one_of("on_bad_update", self.on_bad_update, OnBadUpdate)


def check_one_of(name: str, value: str, kind: Any) -> None:
    """Refuse a value that is none of a Literal's, with the nearest suggested."""
    if value not in typing.get_args(kind):
        raise unknown(name, str(value), typing.get_args(kind))


class Keywords(TypedDict, total=False):
    """The fields of ``Options`` as ``simulate`` and ``train`` take them; a test compares the two."""

    participation: float | None
    cohort_size: int | None
    dropout: float
    robust: str | None
    attack: str | None
    privacy: str | None
    epsilon: float | None
    delta: float | None
    secure: str | None
    executor: str
    workers: int | None
    device: str
    ray_address: str | None
    seed: int
    evaluate_every: int
    evaluate: Evaluate
    evaluate_precision: Precision
    personal: bool
    diagnostics: bool
    on_bad_update: OnBadUpdate
    compress: Compress


def options_from(given: Keywords) -> Options:
    """The options that these keywords ask for; one that does not exist is refused, with the nearest suggested."""
    known = [field.name for field in dataclasses.fields(Options)]
    for name in given:
        if name not in known:
            raise unknown("option", name, known)
    return Options(**given)
