"""The engine: local training, executors, client state, and the loop over rounds."""

from __future__ import annotations

from .local import LocalTraining
from .records import Record, Result
from .simulation import Simulation, simulate, train

__all__ = ["LocalTraining", "Record", "Result", "Simulation", "simulate", "train"]
