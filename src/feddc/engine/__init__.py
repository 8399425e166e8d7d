"""The engine: local training, executors, client state, and the loop over rounds."""

from __future__ import annotations

from .local import LocalTraining
from .records import Record, Rejected, Result
from .simulation import Simulation, simulate, train

__all__ = ["LocalTraining", "Record", "Rejected", "Result", "Simulation", "simulate", "train"]
