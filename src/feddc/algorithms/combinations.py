"""Methods that are a base method with something that belongs to the server or to the local step.

Each is a function that returns the base method's object. FedAdam and its kin are FedAvg with a server optimiser
(Reddi et al., ICLR 2021), FedExP too (Jhunjhunwala et al., ICLR 2023). FedSAM, MoFedSAM (Qu et al., ICML 2022),
FedSpeed (Sun et al., ICLR 2023) and FedGamma (Dai et al., TNNLS 2023) take sharpness-aware local steps of radius
``rho``, and their authors weight all clients alike. ``--sam`` does the same for any method.
"""

from __future__ import annotations

from typing import Literal

from ..errors import check_number
from .fedavg import FedAvg
from .fedcm import FedCM
from .feddyn import FedDyn
from .scaffold import Scaffold
from .server import Adagrad, Adam, ExP, Yogi


def FedAdam(lr: float = 0.01, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> FedAvg:
    """FedAvg whose server takes Adam steps."""
    return FedAvg(server=Adam(lr, beta1, beta2, tau))


def FedYogi(lr: float = 0.01, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> FedAvg:
    """FedAvg whose server takes Yogi steps."""
    return FedAvg(server=Yogi(lr, beta1, beta2, tau))


def FedAdagrad(lr: float = 0.1, beta1: float = 0.0, tau: float = 1e-3) -> FedAvg:
    """FedAvg whose server takes Adagrad steps."""
    return FedAvg(server=Adagrad(lr, beta1, tau))


def FedExP(eps: float = 1e-3) -> FedAvg:
    """FedAvg whose server takes a longer step the more its clients disagree."""
    return FedAvg(server=ExP(eps))


def FedSAM(rho: float = 0.1) -> FedAvg:
    """FedAvg, unweighted, with sharpness-aware local steps."""
    check_number("rho", rho, 0)
    return FedAvg(weighted=False, sam=rho)


def MoFedSAM(rho: float = 0.1, alpha: float = 0.1) -> FedCM:
    """FedCM with sharpness-aware local steps."""
    check_number("rho", rho, 0)
    return FedCM(alpha, sam=rho)


def FedSpeed(rho: float = 0.1, alpha: float = 0.1) -> FedDyn:
    """FedDyn, unweighted, with sharpness-aware local steps."""
    check_number("rho", rho, 0)
    return FedDyn(alpha, weighted=False, sam=rho)


def FedGamma(rho: float = 0.01, steps: Literal["own", "nominal"] = "own") -> Scaffold:
    """SCAFFOLD with sharpness-aware local steps."""
    check_number("rho", rho, 0)
    return Scaffold(steps=steps, lr="current", sam=rho)
