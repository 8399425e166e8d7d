"""MOON: a client's features are drawn to those of the global model and away from those of its own last model.

Li, He and Song, "Model-Contrastive Federated Learning" (CVPR 2021), without a projection head.

    loss        cross-entropy + μ log(1 + exp((cos(f, f_prev) − cos(f, f_w))/τ))
    client      θ_prev ← θ_i, the model that it trained; at first the initial one
    server      w ← w + Σ n_i Δ_i / Σ n_i        over the cohort

    symbols     f, f_w, f_prev: features of batch.own, .received and .previous; θ_prev: client.last

The features of a model are what its last linear layer is given. Where that is the sample itself, as in a linear model,
the term is constant and this is FedAvg.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor
from torch.nn.functional import cosine_similarity, softplus

from ..errors import check_number
from ..types import Column, Correction, LocalResult, LossBatch, Rows, Seen, Vector
from .base import DeltaUpload, ModelSent
from .fedavg import Averaging
from .server import SGD, ServerOptimizer


class Client(NamedTuple):
    last: Rows


@dataclass(frozen=True)
class MOON(Averaging):
    """Local SGD with a contrastive loss, of weight mu: features near the global model's, not its own last model's."""

    mu: float = 1.0
    tau: float = 0.5
    weighted: bool = True
    server: ServerOptimizer = SGD()
    needs_reference: ClassVar[bool] = True
    needs_features: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("mu", self.mu, 0)
        check_number("tau", self.tau, 0, above=True)

    def local_loss(self, batch: LossBatch) -> Tensor:
        near, far = (_likeness(batch.own, other) for other in (batch.received, batch.previous))
        return batch.losses(batch.own.output, batch.target) + self.mu * softplus((far - near) / self.tau)

    def init_client(self, model: Vector) -> Client:
        return Client(model.clone())

    def correct(self, sent: ModelSent, client: Client, weight: Column) -> Correction:
        return Correction(previous=client.last)

    def upload(self, sent: ModelSent, client: Client, local: LocalResult, weight: Column) -> tuple[DeltaUpload, Client]:
        return DeltaUpload(local.delta), Client(sent.model + local.delta)


def _likeness(own: Seen, other: Seen | None) -> Tensor:
    """The cosine between the features of two models, for each sample."""
    assert own.features is not None  # needs_features
    assert other is not None  # needs_reference, Correction.previous
    assert other.features is not None
    return cosine_similarity(own.features, other.features, dim=1)
