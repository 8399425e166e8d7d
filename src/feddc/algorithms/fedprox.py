"""FedProx: local training that is pulled back towards the global model.

Li et al., "Federated Optimization in Heterogeneous Networks" (MLSys 2020). Local objective:

    L_i(θ) + μ/2 ‖θ − w‖²

The authors of FedDC compared with a FedProx that ignores its μ and adds 1e-4 ‖θ − w‖² without the ½: their published
rows correspond to ``mu=2e-4`` here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..errors import check_number
from ..types import Column, Correction
from .base import ModelSent, NoState
from .fedavg import Averaging
from .server import SGD, ServerOptimizer


@dataclass(frozen=True)
class FedProx(Averaging):
    """Local SGD with a pull of strength mu towards the global model, averaged by number of samples."""

    mu: float = 2e-4
    server: ServerOptimizer = SGD()
    steadier: ClassVar[str] = "a larger mu"

    def __post_init__(self) -> None:
        check_number("mu", self.mu, 0)

    def correct(self, sent: ModelSent, client: NoState, weight: Column) -> Correction:
        return Correction(linear=-self.mu * sent.model, prox=self.mu)
