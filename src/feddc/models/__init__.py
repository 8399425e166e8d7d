"""Models: the zoo of the experiments, and any module as one flat vector."""

from __future__ import annotations

from .flat import Buffers, FlatModel, module_with
from .zoo import MODELS, make_model

__all__ = ["MODELS", "Buffers", "FlatModel", "make_model", "module_with"]
