"""What a client does with what the server asks: the client side of a round, on this client's own data and state."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
import torch

from ... import __version__
from ...algorithms import METHODS, Algorithm
from ...data import Federation
from ...data.inputs import ready
from ...engine import LocalTraining
from ...engine.compress import Compression
from ...engine.evaluation import output_of
from ...engine.executors import InProcess
from ...engine.executors.choose import find_device
from ...engine.local.batches import steps_column
from ...engine.local.kernel import Job, Start, one_row, train_client
from ...engine.local.losses import own_loss
from ...engine.local.precision import check_precision
from ...engine.membership import reweighed
from ...engine.rounds import diverged
from ...engine.screening import LARGEST
from ...errors import ConfigError, check, check_number
from ...models import Buffers, FlatModel
from ...options import Compress
from ...tasks import Classification, score_of
from ...types import LocalResult
from ..judging import Judge
from ..packets import MESSAGE, Packet
from ..references import find
from ..samples import AGREED, Agreed, Samples, as_samples, hold_out
from ..settings import NAME, method_from, training_from
from ..states import (
    ModelOnly,
    as_rows,
    as_vectors,
    from_arrays,
    join_buffers,
    pack_upload,
    split_buffers,
    templates,
    unpacked,
)
from .demands import MASKED
from .guarding import site_guard
from .memory import MOST_STATES, ClientMemory
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
        self.device = find_device(str(self.node.get("device", "auto")))
        self.samples = self._load()
        self._prepared: tuple[Agreed, Federation] | None = None
        self._masking: Masking | None = None

    def answer(self, asked: Packet) -> Packet:
        """Say who this is, train, or evaluate."""
        questions = {"who": self.introduce, "train": self.train, "evaluate": self.evaluate}
        questions |= dict.fromkeys(("keys", "shares", "reveal"), self.mask) | {"states": self.states}
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
        score = score_of(self.samples.learned)
        about |= {"score": score.name, "higher": score.higher_is_better}
        moments = self.samples.moments()
        means = {} if moments is None else {"moments.mean": moments.mean, "moments.spread": moments.spread}
        return Packet(about, means)

    def train(self, asked: Packet) -> Packet:
        """Train in one round from the model that the server sent."""
        began, config = time.perf_counter(), asked.config
        algorithm = method_from(config, self.methods)
        experiment, round, seen = experiment_of(config), int(config["round"]), int(config["seen"])
        shape = templates(algorithm, self.model, uploads=False)
        agreed, vectors, own = self._arrays(asked)
        compression = compression_from(config)
        sent = unpacked(vectors, shape.sent, compression, shape.sent._fields)
        buffers = from_arrays(own, shape.buffers)

        memory = self._memory(experiment)
        if (decided := filter_from(config, asked.arrays, self.model.params.numel())) is not None:
            settle(memory, seen, algorithm, shape, decided)
        state, lost, trained_with = memory.recall(seen, shape.client, int(config.get("oldest", seen)))
        if trained_with is not None:
            state = reweighed(algorithm, state, trained_with, len(self.samples.y))
        check_number("the weight that the server sends", float(config["weight"]), 0, LARGEST)
        weight = torch.tensor([[config["weight"]]], dtype=torch.float32)
        rows = as_rows(state)
        federation = self._federation(agreed)
        local, trained = self.local_training(config, federation, algorithm, sent, rows, buffers, weight)
        guard = site_guard(config, self.node, trained)
        used = guard.used(local.delta)
        used = used if compression is None else compression.up(used, [self.number], round)
        local = replace(local, delta=used)  # from here on there is only what the server uses
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
        arrays = pack_upload(as_vectors(upload), compression, self.number, round)
        return Packet(reply, join_buffers(arrays, trained))

    def states(self, asked: Packet) -> Packet:
        """The rounds to which this client could go back, before the server takes some back."""
        experiment = experiment_of(asked.config)
        about = {"experiment": experiment, "round": int(asked.config["round"]), "client": self.number}
        return Packet(about | {"states": self._memory(experiment).rounds()})

    def _memory(self, experiment: str) -> ClientMemory:
        most = int(self.node.get("most-states", MOST_STATES))
        return ClientMemory(self.folder / experiment / f"client-{self.number}", most)

    def mask(self, asked: Packet) -> Packet:
        """Take part in an exchange of secure aggregation."""
        return self.masking.answer(asked)

    @property
    def masking(self) -> Masking:
        """This client's part in secure aggregation, which needs cryptography only where it is used."""
        from .masking import Masking

        least = int(self.node.get(MASKED, 2))
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
            judge = Judge(self.model.module, self._federation(agreed), self._elsewhere)
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
        training, nominal, round = self._training(config), int(config["steps"]), int(config["round"])
        fixed = nominal if algorithm.fixed_steps else None
        job = Job(self.model.module, federation, training, int(config["seed"]), fixed, own_loss(algorithm))
        correction = one_row(algorithm.correct(sent, rows, weight))
        start = Start(round, sent.model, buffers)
        if self._elsewhere is None:
            moved = train_client(job, self.model, self.number, start, correction)
            params, trained = self.model.params, self.model.buffers()
            dual = None if moved is None else moved.unsqueeze(0)
        else:
            [part] = InProcess(job, self._elsewhere).train([self.number], start, lambda _: correction)
            params, trained, dual = part.params[0], Buffers(*(field[0] for field in part.buffers)), part.dual
        delta = (params - sent.model).unsqueeze(0)
        if not torch.isfinite(delta).all():
            raise diverged(algorithm, round, self.number)
        steps = steps_column(np.array([len(self.samples.y)]), training, self.model.module, fixed)
        schedule = vars(training.schedule(round, nominal))
        return LocalResult(delta=delta, dual=dual, steps=steps, **schedule), trained

    def _training(self, config: Mapping[str, Any]) -> LocalTraining:
        """How the server asks to train; in which precision this site's hardware computes is for the site to say."""
        training = training_from(config)
        training = replace(training, precision=self.node.get("precision", training.precision))
        check_precision(training.precision, self.model.params.dtype, self.device)
        return training

    @property
    def _elsewhere(self) -> str | None:
        """The device to which model and samples are moved; None for this processor."""
        return None if self.device == "cpu" else self.device

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
            classes = max(own.classes, self._outputs(own))
            self._prepared = agreed, replace(own, clients=(*elsewhere, own.clients[0]), classes=classes)
        return self._prepared[1]

    def _outputs(self, federation: Federation) -> int:
        """How many classes the model knows: this site may have no sample of the last ones."""
        if not isinstance(federation.task, Classification):
            return 0
        x, _ = federation.first(1)
        with torch.no_grad():
            output = output_of(FlatModel(self.model.module).module.eval(), ready(x, self.model.params.dtype))
        return int(output.shape[-1])


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


def compression_from(config: Mapping[str, Any]) -> Compression | None:
    """How the vectors of a question and of its answer travel."""
    name = config.get("compress", "none")
    check(name in get_args(Compress), f"the server sends vectors as {name!r}, which is not known here")
    return None if name == "none" else Compression(name, int(config["seed"]))


def method_classes() -> dict[str, Any]:
    """The classes of the registered methods by name."""
    classes = {type(make()) for make in METHODS.values()}
    return {each.__name__: each for each in classes}
