"""FedDecorr: features of a client's model that vary together are penalised, so that they do not collapse.

Shi et al., "Towards Understanding and Mitigating Dimensional Collapse in Heterogeneous Federated Learning" (ICLR 2023),
in the form of the authors' code.

    loss        cross-entropy + β mean_{j≠k} (C_jk²)/B,   C = F̂ᵀF̂, F̂ the features of a batch of B, standardised
    server      w ← w + Σ n_i Δ_i / Σ n_i        over the cohort

    symbols     F (B, d): batch.own.features, what the model's last linear layer is given

C is not divided by B, so β weighs more the larger the batch; the paper's is ‖correlation‖²/d². A batch of one sample
has no such term.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..errors import check_number
from ..types import LossBatch
from .fedavg import Averaging
from .server import SGD, ServerOptimizer


@dataclass(frozen=True)
class FedDecorr(Averaging):
    """Local SGD with a penalty of weight beta on correlated features."""

    beta: float = 0.1
    weighted: bool = True
    server: ServerOptimizer = SGD()
    needs_features: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("beta", self.beta, 0)

    def local_loss(self, batch: LossBatch) -> Tensor:
        assert batch.own.features is not None  # needs_features
        real, size = batch.real.unsqueeze(1), batch.real.sum()  # (B, 1)
        features = batch.own.features
        centred = (features - (real * features).sum(dim=0) / size) * real
        variance = centred.square().sum(dim=0) / (size - 1).clamp(min=1)
        standard = centred / (1e-8 + variance).sqrt()
        together = (standard.t() @ standard).square()  # (d, d)
        pairs = max(1, len(together) * (len(together) - 1))
        term = (together.sum() - together.diagonal().sum()) / pairs / size
        return batch.losses(batch.own.output, batch.target) + self.beta * term
