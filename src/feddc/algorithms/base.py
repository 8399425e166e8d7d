"""The one interface of a method, and the small states that several methods share.

A method is a frozen dataclass of hyper-parameters with six pure functions. All state is passed in and returned:

    server side   init_server(model) -> Server      broadcast(server) -> Sent
                  aggregate(server, mean_upload, cohort) -> Server
    client side   init_client(model) -> Client      correct(sent, client, weight) -> Correction      before training
                  upload(sent, client, local, weight) -> (Upload, Client)                            after training

``Server``, ``Sent``, ``Client`` and ``Upload`` are NamedTuples of tensors. On the server side tensors are vectors (P,);
on the client side they are rows (K, P), one per client, and ``weight`` is the column (K, 1) of ω_i = n_i / mean(n).
The engine averages the uploads, plainly, over the cohort: the server never sees a single client.
The first field of every ``Server`` is ``model``, the global vector w.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol

from ..types import Cohort, Column, Correction, LocalResult, Rows, Vector
from .server import OptState


class Algorithm(Protocol):
    """What the engine asks of a method; see the module's docstring."""

    fixed_steps: ClassVar[bool]
    """True: every client takes exactly K steps. False: every client makes ``epochs`` passes over its own data."""

    def init_server(self, model: Vector) -> Any: ...
    def init_client(self, model: Vector) -> Any: ...
    def broadcast(self, server: Any) -> Any: ...
    def correct(self, sent: Any, client: Any, weight: Column) -> Correction: ...
    def upload(self, sent: Any, client: Any, local: LocalResult, weight: Column) -> tuple[Any, Any]: ...
    def aggregate(self, server: Any, mean: Any, cohort: Cohort) -> Any: ...


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
    """Upload of a method that sends nothing but its update."""

    delta: Rows


class PairSent(NamedTuple):
    """Broadcast of a method that sends the model and a gradient estimate."""

    model: Vector
    variate: Vector


class PairUpload(NamedTuple):
    """Upload of a method that sends its update and the change of its gradient estimate."""

    delta: Rows
    variate: Rows
