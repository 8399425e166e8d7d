"""The data folder: where data sets are kept, and where ``feddc data fetch`` puts them."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path


def data_folder(explicit: str | Path | None = None) -> Path:
    """``explicit`` if given, else the environment variable FEDDC_DATA, else feddc's folder in the user's cache."""
    chosen = explicit or os.environ.get("FEDDC_DATA")
    return Path(chosen).expanduser() if chosen else user_cache_path("feddc", appauthor=False)
