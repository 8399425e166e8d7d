"""The data folder: where data sets are kept, and where ``feddc data fetch`` puts them."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def data_folder(explicit: str | Path | None = None) -> Path:
    """``explicit`` if given, else the environment variable FEDDC_DATA, else feddc's folder in the user's cache."""
    chosen = explicit or os.environ.get("FEDDC_DATA")
    return Path(chosen).expanduser() if chosen else _cache() / "feddc"


def _cache() -> Path:
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
