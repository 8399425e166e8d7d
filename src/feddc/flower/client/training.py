"""What a client does with what the server asks: the client side of a round, on this client's own data and state."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from ... import __version__
from ...algorithms import METHODS, Algorithm
from ...data import Federation
from ...engine.local import Job, Start, one_row, steps_column, train_client
from ...engine.losses import own_loss
from ...engine.membership import reweighed
from ...errors import ConfigError, DivergedError, check
from ...models import Buffers, FlatModel
from ...types import LocalResult
from ..judging import Judge
from ..packets import MESSAGE, Packet
from ..references import find
from ..samples import AGREED, Agreed, Samples, as_samples, hold_out
from ..settings import NAME, method_from, training_from
from ..states import ModelOnly, as_rows, as_vectors, from_arrays, join_buffers, split_buffers, templates
from .guarding import site_guard
from .memory import ClientMemory
from .settling import FILTER, filter_from, settle, wait

if TYPE_CHECKING:
    from .masking import Masking


class ClientSpec(NamedTuple):
    """Who a client is: the functions of its app, by name, its node's config, and where it keeps its state."""

    load_client: str
    model: str
    methods: tuple[str, ...]
    node: tuple[tuple[str, Any], ...]
    folder: str


class TrainingClient:
    """One client: its data and model, and an answer to every question of the server."""

    def __init__(self, spec: ClientSpec) -> None:
        self.node = dict(spec.node)
        self.number = client_number(self.node)
        self.model = FlatModel(find(spec.model)())
        self.methods = method_classes() | {each.__name__: each for each in map(find, spec.methods)}
        self.folder, self._load_client = Path(spec.folder), spec.load_client
        self.samples = self._load()
        self._prepared: tuple[Agreed, Federation] | None = None
        self._masking: Masking | None = None

    def answer(self, asked: Packet) -> Packet:
        """Say who this is, train, or evaluate."""
        questions = {"who": self.introduce, "train": self.train, "evaluate": self.evaluate}
        questions |= dict.fromkeys(("keys", "shares", "reveal"), self.mask)
        what = asked.config.get("ask")
        check(what in questions, f"the server asks for {what!r}, which is not known here")
        return questions[str(what)](asked)

    def introduce(self, asked: Packet) -> Packet:
        """Number, counts, size of the model and, where a scale is to be agreed on, the means: no sample leaves.

        The data is read again: a run counts what is there when it begins, or when this client comes back.
        """
        self.samples, self._prepared = self._load(), None
        about: dict[str, Any] = {"client": self.number, "samples": len(self.samples.y), "feddc": __version__}
        about |= {"parameters": self.model.params.numel(), "classes": self.samples.names()}
        about |= {"held_out": 0 if self.samples.test is None else len(self.samples.test[1])}
        moments = self.samples.moments()
        means = {} if moments is None else {"moments.mean": moments.mean, "moments.spread": moments.spread}
        return Packet(about, means)

    def train(self, asked: Packet) -> Packet:
        """Train in one round from the model that the server sent."""
        began, config = time.perf_counter(), asked.config
        algorithm = method_from(config, self.methods)
        experiment, round, seen = experiment_of(config), int(config["round"]), int(config["seen"])
        shape = templates(algorithm, self.model)
        agreed, vectors, own = self._arrays(asked)
        sent, buffers = from_arrays(vectors, shape.sent), from_arrays(own, shape.buffers)

        memory = ClientMemory(self.folder / experiment / f"client-{self.number}")
        if (decided := filter_from(config, asked.arrays, self.model.params.numel())) is not None:
            settle(memory, seen, algorithm, shape, decided)
        state, lost, trained_with = memory.recall(seen, shape.client)
        if trained_with is not None:
            state = reweighed(algorithm, state, trained_with, len(self.samples.y))
        weight = torch.tensor([[config["weight"]]], dtype=torch.float32)
        rows = as_rows(state)
        federation = self._federation(agreed)
        local, trained = self.local_training(config, federation, algorithm, sent, rows, buffers, weight)
        guard = site_guard(config, self.node, trained)
        local = replace(local, delta=guard.used(local.delta))  # from here on there is only what the server uses
        upload, after = algorithm.upload(sent, rows, local, weight)
        if config.get("guard.later"):
            wait(memory, round, sent, rows, local, weight)
        else:
            memory.keep(round, as_vectors(after), len(self.samples.y))

        reply: dict[str, Any] = {"experiment": experiment, "round": round, "client": self.number, "lost": lost}
        reply |= {"samples": len(self.samples.y), "seconds": time.perf_counter() - began}
        if guard.lattice is not None:
            return Packet(reply, {MESSAGE: self.masking.masked(asked, local.delta, guard.lattice)})
        if not guard.silent:
            drift = getattr(after, "drift", None)
            reply |= {"update": float(local.delta.norm())} | ({} if drift is None else {"drift": float(drift.norm())})
        return Packet(reply, join_buffers(as_vectors(upload), trained))

    def mask(self, asked: Packet) -> Packet:
        """Take part in an exchange of secure aggregation."""
        return self.masking.answer(asked)

    @property
    def masking(self) -> Masking:
        """This client's part in secure aggregation, which needs cryptography only where it is used."""
        from .masking import Masking

        least = int(self.node.get("secure-least", 2))
        self._masking = self._masking or Masking(self.number, self.model.params.numel(), least)
        return self._masking

    def evaluate(self, asked: Packet) -> Packet:
        """The measures of the model that the server sent, on this client's held-out samples."""
        config = asked.config
        agreed, vectors, own = self._arrays(asked)
        model = from_arrays(vectors, ModelOnly(self.model.params)).model
        buffers = from_arrays(own, self.model.buffers())
        found: dict[str, float] = {}
        if self.samples.test is not None:
            judge = Judge(self.model.module, self._federation(agreed))
            found = judge.measures(Start(int(config["round"]), model, buffers))
        reply = {"experiment": experiment_of(config), "round": int(config["round"]), "client": self.number}
        return Packet(reply | {f"measure.{name}": value for name, value in found.items()})

    def local_training(
        self,
        config: Mapping[str, Any],
        federation: Federation,
        algorithm: Algorithm,
        sent: Any,
        rows: Any,
        buffers: Buffers,
        weight: Any,
    ) -> tuple[LocalResult, Buffers]:
        """The engine's local training, as in a simulation; the buffers after it."""
        training, nominal, round = training_from(config), int(config["steps"]), int(config["round"])
        fixed = nominal if algorithm.fixed_steps else None
        job = Job(self.model.module, federation, training, int(config["seed"]), fixed, own_loss(algorithm))
        correction = one_row(algorithm.correct(sent, rows, weight))
        dual = train_client(job, self.model, self.number, Start(round, sent.model, buffers), correction)
        delta = (self.model.params - sent.model).unsqueeze(0)
        if not torch.isfinite(delta).all():
            raise DivergedError(str(config["method"]).lower(), round, self.number)
        steps = steps_column(np.array([len(self.samples.y)]), training, self.model.module, fixed)
        schedule = vars(training.schedule(round, nominal))
        kept = None if dual is None else dual.unsqueeze(0)
        return LocalResult(delta=delta, dual=kept, steps=steps, **schedule), self.model.buffers()

    def _load(self) -> Samples:
        found = as_samples(find(self._load_client)(self.node))
        return hold_out(found, float(self.node.get("holdout", 0.0)))

    def _arrays(self, asked: Packet) -> tuple[Agreed, dict[str, Any], dict[str, Any]]:
        """What was agreed on, and the arrays of the method and of the buffers."""
        agreed = Agreed.from_message(asked.arrays, asked.config.get("classes", ()))
        rest = {name: array for name, array in asked.arrays.items() if not name.startswith((AGREED, FILTER, MESSAGE))}
        return agreed, *split_buffers(rest)

    def _federation(self, agreed: Agreed) -> Federation:
        """This client's samples, prepared as all agreed; random keys go by its number, so it sits at its own place."""
        if self._prepared is None or self._prepared[0] != agreed:
            own = self.samples.prepared(agreed)
            elsewhere = [own.clients[0][:0]] * self.number
            self._prepared = agreed, replace(own, clients=(*elsewhere, own.clients[0]))
        return self._prepared[1]


def client_number(node: Mapping[str, Any]) -> int:
    """The number of a client among all: its SuperNode's partition-id."""
    number = node.get("partition-id")
    if not isinstance(number, int) or number < 0:
        raise ConfigError(f"this SuperNode needs --node-config 'partition-id=N' with its number from 0, not {number!r}")
    return number


def experiment_of(config: Mapping[str, Any]) -> str:
    """The experiment of a question; it is also the name of a folder."""
    experiment = str(config["experiment"])
    check(NAME.fullmatch(experiment) is not None, f"the experiment's name {experiment!r} cannot be used")
    return experiment


def method_classes() -> dict[str, Any]:
    """The classes of the registered methods by name."""
    classes = {type(make()) for make in METHODS.values()}
    return {each.__name__: each for each in classes}
