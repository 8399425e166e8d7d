"""The one interface of a method, and the small states that several methods share.

A method is a frozen dataclass of hyper-parameters with seven pure functions, its own or FedAvg's (``Averaging``). All
state is passed in and returned:

    client side   init_client(model) -> Client      correct(sent, client, weight) -> Correction      before training
                  upload(sent, client, local, weight) -> (Upload, Client)                            after training
    server side   init_server(model) -> Server      broadcast(server) -> Sent
                  weigh(local, weight) -> {name: column}
                  aggregate(server, means, cohort) -> Server

``Server``, ``Sent``, ``Client`` and ``Upload`` are NamedTuples of tensors. On the server side tensors are vectors (P,);
on the client side they are rows (K, P), one per client, and ``weight`` is the column (K, 1) of ω_i = n_i / mean(n).
What a client uploads is its update Δ_i, in the field ``delta``, and only what the server cannot compute from Δ_i, ω_i
and the client's number of steps. ``weigh`` names the weights under which the method wants the mean of the uploads over
the cohort, and ``aggregate`` gets one ``Mean`` for each: the server never sees a single client.
The first field of every ``Server`` is ``model``, the global vector w, and the first of every ``Sent`` is the ``model``
that clients begin with. A method whose model to judge is not w has ``evaluated(server)``, and a server optimiser may
have it too; one whose upload is not Δ_i as it is says ``sends_update = False``; one that asks for sharpness-aware local
steps has their radius in ``sam``; one whose own options can make training more stable says how in ``steadier``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from ..types import Cohort, Column, Correction, Local, LocalResult, Means, Rows, Vector, Weights
from .server import OptState


class Algorithm(Protocol):
    """The interface of a method: seven pure functions on NamedTuples of tensors. CONTRIBUTING.md has an example."""

    @property
    def fixed_steps(self) -> bool:
        """True: every client takes exactly K steps. False: every client makes ``epochs`` passes over its own data."""
        ...

    def init_server(self, model: Vector) -> Any: ...
    def init_client(self, model: Vector) -> Any: ...
    def broadcast(self, server: Any) -> Any: ...
    def correct(self, sent: Any, client: Any, weight: Column) -> Correction: ...
    def upload(self, sent: Any, client: Any, local: LocalResult, weight: Column) -> tuple[Any, Any]: ...
    def weigh(self, local: Local, weight: Column) -> Weights: ...
    def aggregate(self, server: Any, means: Means, cohort: Cohort) -> Any: ...


def evaluated(algorithm: Algorithm, server: Any) -> Vector:
    """The model to judge and to keep: w, unless the method or its server optimiser has another one."""
    model: Vector = server.model
    if hasattr(algorithm, "evaluated"):
        model = algorithm.evaluated(server)
    elif hasattr(getattr(algorithm, "server", None), "evaluated"):
        model = algorithm.server.evaluated(server.model, server.opt)  # type: ignore[attr-defined]
    return model


def steadier(algorithm: Any) -> list[str]:
    """What to try, among a method's own options, when training with it is not stable: in words."""
    algorithm = getattr(algorithm, "inner", algorithm)
    hints = ["steps=own"] if getattr(algorithm, "steps", "own") == "nominal" else []
    hints += [algorithm.steadier] if hasattr(algorithm, "steadier") else []
    adaptive = hasattr(getattr(algorithm, "server", None), "tau")
    return [*hints, "a smaller learning rate of the server"] if adaptive else hints


class ModelServer(NamedTuple):
    """Server state of a method that keeps nothing but the model."""

    model: Vector
    opt: OptState


class ModelSent(NamedTuple):
    """Broadcast of a method that sends nothing but the model."""

    model: Vector


class NoState(NamedTuple):
    """Client state of a method that keeps none."""


class DeltaUpload(NamedTuple):
    """Upload of a method that sends nothing but its update, as nearly all do."""

    delta: Rows


class PairSent(NamedTuple):
    """Broadcast of a method that sends the model and a gradient estimate."""

    model: Vector
    variate: Vector
