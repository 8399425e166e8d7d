"""Where Flower and feddc keep their files: ``$FLWR_HOME``, or ``~/.flwr``."""

from __future__ import annotations

import os
from pathlib import Path


def flower_home() -> Path:
    """Flower's folder, as Flower itself finds it."""
    return Path(os.environ.get("FLWR_HOME") or "~/.flwr").expanduser()
