"""A site's own record of everything that it sent: names, shapes and hashes, never values.

One line of JSON for each message, in ``sent-N.jsonl`` beside the client's state: when, in answer to what, the names of
the settings that were sent along, and for each array its name, type, shape and SHA-256. With it a site can show later
what left it, and that a file which somebody else holds is, or is not, what it sent.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from flwr.app import Message

from ..packets import ARRAYS, CONFIG


def record(folder: Path, client: Any, asked: Message, reply: Message) -> None:
    """Add a line for a reply that is about to be sent."""
    content: Any = {} if reply.has_error() else reply.content
    arrays, config = content.get(ARRAYS, {}), content.get(CONFIG, {})
    line = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "run": asked.metadata.run_id,
        "asked": asked.metadata.message_type,
        "round": asked.metadata.group_id,
        "settings": sorted(config),
        "arrays": [
            {
                "name": name,
                "type": array.dtype,
                "shape": list(array.shape),
                "sha256": hashlib.sha256(array.data).hexdigest(),
            }
            for name, array in arrays.items()
        ],
    }
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"sent-{client}.jsonl"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
