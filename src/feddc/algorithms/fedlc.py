"""FedLC: a client's rare classes get a margin, so that it does not unlearn them.

Zhang et al., "Federated Learning with Label Distribution Skew via Logits Calibration" (ICML 2022).

    loss        cross-entropy of z_c − τ n_{i,c}^(−1/4);   a class that the client does not have leaves the softmax
    server      w ← w + mean Δ_i (cohort), or by samples with ``weighted=True``

    symbols     z: batch.own.output, n_{i,c}: batch.counts, the client's samples of each class

The printed loss leaves the true class out of the denominator, and has no lower bound; this is the usual softmax.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..errors import check_number
from ..types import LossBatch
from .fedavg import Averaging
from .server import SGD, ServerOptimizer

ABSENT = 1e9  # so far below the others that its share of a softmax, and its gradient, is exactly 0


@dataclass(frozen=True)
class FedLC(Averaging):
    """Local SGD on logits that are calibrated by how many samples of each class the client has."""

    tau: float = 1.0
    weighted: bool = False
    server: ServerOptimizer = SGD()

    def __post_init__(self) -> None:
        check_number("tau", self.tau, 0)

    def local_loss(self, batch: LossBatch) -> Tensor:
        output, counts = batch.own.output, batch.counts
        margin = self.tau * counts.clamp(min=1).to(output.dtype) ** -0.25
        return batch.losses((output - margin).masked_fill(counts == 0, -ABSENT), batch.target)
