"""The same methods on Flower: one server, and clients whose data and state never leave them (``feddc[flower]``).

    server.py     app = server_app("feddc:alpha=0.1", "hospitals.task:make_model", settings=Settings(clients=3))
    client.py     app = client_app("hospitals.task:load_client", "hospitals.task:make_model")

`feddc flower new DIR` writes both, ready to run. Importing this package does not import torch: Flower starts a new
process for every message to a client, and what is imported here is paid for in every round.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client.app import client_app
    from .samples import Samples, read_table
    from .server.app import server_app
    from .settings import Settings

__all__ = ["Samples", "Settings", "client_app", "read_table", "server_app"]

_HOMES = {
    "Samples": "samples",
    "Settings": "settings",
    "client_app": "client.app",
    "read_table": "samples",
    "server_app": "server.app",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
