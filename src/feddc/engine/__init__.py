"""The engine: local training, executors, client state, and the loop over rounds."""

from __future__ import annotations

from ..options import LocalTraining
from .callbacks import Callback
from .drift import Drift
from .records import ClientScores, Record, Rejected, Result, Site
from .simulating import simulate
from .simulation import Simulation

__all__ = [
    "Callback",
    "ClientScores",
    "Drift",
    "LocalTraining",
    "Record",
    "Rejected",
    "Result",
    "Simulation",
    "Site",
    "simulate",
]
