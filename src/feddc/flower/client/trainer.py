"""The trainer's side of ``trainers.py``: one process that keeps torch, the data and the model between messages."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from contextlib import suppress
from multiprocessing.connection import Listener
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..failures import report
from ..packets import Packet, receive, send
from .processes import alive

if TYPE_CHECKING:
    from .training import TrainingClient


def main(setup: str) -> None:
    """Answer messages until the process ``node`` ends, or until the socket's name is taken away."""
    spec, sock, node = json.loads(setup)
    os.umask(0o077)
    # The socket comes before torch: the first message waits in it instead of looking for it.
    with Listener(sock, "AF_UNIX") as listener:
        threading.Thread(target=_end_with, args=(node, Path(sock)), daemon=True).start()
        client: TrainingClient | None = None
        while True:
            with listener.accept() as connection:
                try:
                    asked = receive(connection)
                except (EOFError, ConnectionError):  # whoever asked has gone
                    continue
                try:
                    client = client or _client(spec)
                    reply = client.answer(asked)
                except Exception as error:  # whatever the user's code raises: it stays in this log, as the trainer does
                    traceback.print_exc()
                    sys.stderr.flush()
                    reply = Packet(report(error))
                with suppress(ConnectionError):  # who asked was killed: the message comes again, or is given up
                    send(connection, reply)


def _client(spec: list[Any]) -> TrainingClient:
    import torch

    from .training import ClientSpec, TrainingClient

    load_client, model, methods, node, folder = spec
    torch.set_num_threads(int(dict(node).get("threads", 1)))  # several trainers on one machine would get in their way
    return TrainingClient(ClientSpec(load_client, model, tuple(methods), tuple((k, v) for k, v in node), folder))


def _end_with(node: int, sock: Path) -> None:
    """Leave with the SuperNode, whatever is being computed."""
    while alive(node) and sock.exists():
        time.sleep(0.5)
    sock.unlink(missing_ok=True)
    if not alive(node):  # nobody will start another
        sock.with_name(sock.name.partition(".")[0] + ".lock").unlink(missing_ok=True)
    os._exit(0)
