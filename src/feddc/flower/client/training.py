"""What a client does with what the server asks: the client side of a round, on this client's own data and state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ... import __version__
from ...algorithms import METHODS, Algorithm
from ...data import Federation
from ...engine.local import Job, Start, one_row, own_loss, steps_column, train_client
from ...errors import ConfigError, DataError, DivergedError, check
from ...models import Buffers, FlatModel
from ...types import LocalResult
from ..packets import Packet
from ..references import find
from ..settings import NAME, method_from, training_from
from ..states import as_rows, as_vectors, from_arrays, join_buffers, split_buffers, templates
from .memory import ClientMemory


class ClientSpec(NamedTuple):
    """Who a client is: the functions of its app, by name, its node's config, and where it keeps its state."""

    load_client: str
    model: str
    methods: tuple[str, ...]
    node: tuple[tuple[str, Any], ...]
    folder: str


class TrainingClient:
    """One client: its data and model, loaded once, and an answer to every question of the server."""

    def __init__(self, spec: ClientSpec) -> None:
        node = dict(spec.node)
        self.number = client_number(node)
        own = single(find(spec.load_client)(node))
        # Random keys go by the client's number, so it sits at its own place; the others' samples are elsewhere.
        elsewhere = [own.clients[0][:0]] * self.number
        self.federation = replace(own, clients=(*elsewhere, own.clients[0]))
        self.samples = len(own.clients[0])
        self.model = FlatModel(find(spec.model)())
        self.methods = method_classes() | {each.__name__: each for each in map(find, spec.methods)}
        self.folder = Path(spec.folder)

    def answer(self, asked: Packet) -> Packet:
        """Say who this is, or train."""
        what = asked.config.get("ask")
        check(what in ("who", "train"), f"the server asks for {what!r}, which is not known here")
        return self.introduce() if what == "who" else self.train(asked)

    def introduce(self) -> Packet:
        """Number, samples and size of the model: all that the server learns of this client before it trains."""
        about = {"client": self.number, "samples": self.samples, "parameters": self.model.params.numel()}
        return Packet(about | {"feddc": __version__})

    def train(self, asked: Packet) -> Packet:
        """Train in one round from the model that the server sent."""
        config = asked.config
        algorithm = method_from(config, self.methods)
        experiment, round, seen = str(config["experiment"]), int(config["round"]), int(config["seen"])
        check(NAME.fullmatch(experiment) is not None, f"the experiment's name {experiment!r} cannot be used")
        shape = templates(algorithm, self.model)
        vectors, own = split_buffers(asked.arrays)
        sent, buffers = from_arrays(vectors, shape.sent), from_arrays(own, shape.buffers)

        memory = ClientMemory(self.folder / experiment / f"client-{self.number}")
        state, lost = memory.recall(seen, shape.client)
        weight = torch.tensor([[config["weight"]]], dtype=torch.float32)
        rows = as_rows(state)
        local, trained = self.local_training(config, algorithm, sent, rows, buffers, weight)
        upload, after = algorithm.upload(sent, rows, local, weight)
        memory.keep(round, as_vectors(after))

        reply: dict[str, Any] = {"experiment": experiment, "round": round, "client": self.number}
        return Packet(reply | ({} if lost is None else {"lost": lost}), join_buffers(as_vectors(upload), trained))

    def local_training(
        self, config: Mapping[str, Any], algorithm: Algorithm, sent: Any, rows: Any, buffers: Buffers, weight: Any
    ) -> tuple[LocalResult, Buffers]:
        """The engine's local training, as in a simulation; the buffers after it."""
        training, nominal, round = training_from(config), int(config["steps"]), int(config["round"])
        fixed = nominal if algorithm.fixed_steps else None
        job = Job(self.model.module, self.federation, training, int(config["seed"]), fixed, *own_loss(algorithm))
        correction = one_row(algorithm.correct(sent, rows, weight))
        train_client(job, self.model, self.number, Start(round, sent.model, buffers), correction)
        delta = (self.model.params - sent.model).unsqueeze(0)
        if not torch.isfinite(delta).all():
            raise DivergedError(str(config["method"]).lower(), round, self.number)
        steps = steps_column(np.array([self.samples]), training, self.model.module, fixed)
        return LocalResult(delta=delta, steps=steps, **vars(training.schedule(round, nominal))), self.model.buffers()


def client_number(node: Mapping[str, Any]) -> int:
    """The number of a client among all: its SuperNode's partition-id."""
    number = node.get("partition-id")
    if not isinstance(number, int) or number < 0:
        raise ConfigError(f"this SuperNode needs --node-config 'partition-id=N' with its number from 0, not {number!r}")
    return number


def single(data: Any) -> Federation:
    """A client's data, (x, y) or a map-style torch Dataset or a Federation of one client, as a Federation."""
    if isinstance(data, tuple) and len(data) == 2:
        return Federation.from_arrays(*data, sizes=[len(data[1])])
    found = data if isinstance(data, Federation) else Federation.from_dataset(data, sizes=[len(data)])
    if len(found) != 1:
        raise DataError(f"load_client must give the data of one client, not of {len(found)}")
    return found


def method_classes() -> dict[str, Any]:
    """The classes of the registered methods by name."""
    classes = {type(make()) for make in METHODS.values()}
    return {each.__name__: each for each in classes}
