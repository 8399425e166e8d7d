"""FedNTD: what the global model knows of the classes that are not the answer is kept.

Lee et al., "Preservation of the Global Knowledge by Not-True Distillation in Federated Learning" (NeurIPS 2022).

    loss        cross-entropy + β τ² KL(p_w ‖ p_θ), each p the softmax of z/τ over all classes except the true one
    server      w ← w + Σ n_i Δ_i / Σ n_i        over the cohort

    symbols     z of θ: batch.own.output, z of w: batch.received.output, for the same samples

``convex=True`` is (1 − β) cross-entropy + β KL, without τ², as FedACG's authors compared with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..errors import check_number
from ..types import LossBatch
from .fedavg import Averaging
from .server import SGD, ServerOptimizer


@dataclass(frozen=True)
class FedNTD(Averaging):
    """Local SGD that distils, with weight beta, the global model's predictions for all classes but the true one."""

    beta: float = 1.0
    tau: float = 1.0
    weighted: bool = True
    convex: bool = False
    server: ServerOptimizer = SGD()
    needs_reference: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("beta", self.beta, 0, 1 if self.convex else math.inf)
        check_number("tau", self.tau, 0, above=True)

    def local_loss(self, batch: LossBatch) -> Tensor:
        assert batch.received is not None  # needs_reference
        own, taught = (self._not_true(each.output, batch.target) for each in (batch.own, batch.received))
        divergence = (taught.exp() * (taught - own)).sum(dim=-1)
        true = batch.losses(batch.own.output, batch.target)
        if self.convex:
            return (1 - self.beta) * true + self.beta * divergence
        return true + self.beta * self.tau**2 * divergence

    def _not_true(self, output: Tensor, target: Tensor) -> Tensor:
        """The logarithm of the softmax over the classes that are not the target; far below 0 for that one."""
        true = torch.arange(output.shape[-1], device=output.device) == target.unsqueeze(-1)
        return torch.log_softmax((output / self.tau).masked_fill(true, -1e9), dim=-1)
