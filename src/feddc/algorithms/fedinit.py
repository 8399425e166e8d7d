"""FedInit: a client begins on the far side of the global model, seen from where it ended last time.

Sun et al., "Understanding How Consistency Works in Federated Learning via Stage-wise Relaxed Initialization"
(NeurIPS 2023), in the form of FL-Simulator's code.

    start       w + β (w − θ_i of the client's last round)
    client      keeps θ_i
    server      w ← w + mean (θ_i − start_i)        (cohort)

``form="paper"`` moves to w ← mean θ_i, which adds β · mean (w − θ_i last). β = 0 is FedAvg with a plain mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..errors import check, check_number
from ..types import Column, Correction, LocalResult, Rows, Vector
from .base import DeltaUpload, ModelSent
from .fedavg import Averaging
from .server import SGD, ServerOptimizer


class Client(NamedTuple):
    last: Rows


@dataclass(frozen=True)
class FedInit(Averaging):
    """Local SGD that starts from the global model minus beta times the client's own last deviation from it."""

    beta: float = 0.1
    form: Literal["code", "paper"] = "code"
    server: ServerOptimizer = SGD()
    weighted = False

    def __post_init__(self) -> None:
        check_number("beta", self.beta, 0)
        check(self.form in ("code", "paper"), f"form must be 'code' or 'paper', not {self.form!r}")

    @property
    def sends_update(self) -> bool:
        """Whether what travels up is Δ_i and nothing else, so that it can be compressed."""
        return self.form == "paper"

    def init_client(self, model: Vector) -> Client:
        return Client(model.clone())

    def correct(self, sent: ModelSent, client: Client, weight: Column) -> Correction:
        return Correction(start=self.beta * (sent.model - client.last))

    def upload(self, sent: ModelSent, client: Client, local: LocalResult, weight: Column) -> tuple[DeltaUpload, Client]:
        start = self.beta * (sent.model - client.last) if self.form == "code" else 0.0
        return DeltaUpload(local.delta - start), Client(sent.model + local.delta)
