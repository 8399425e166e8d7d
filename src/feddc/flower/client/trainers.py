"""A warm trainer process beside each SuperNode.

Flower starts a new process for every message to a client; importing torch and loading the data there would take longer
than the training. A trainer is started with the first message and keeps both. It listens on a unix socket in a folder
that only its owner can enter, answers one message at a time, and ends with the SuperNode. If it has died, the next
message starts another; if it dies over a message, the message is tried once more with a fresh one.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

from filelock import FileLock

from ...errors import WorkerError
from ..failures import FAILED, PLACE, SiteError
from ..packets import Packet, receive, send
from .launcher import PIN
from .pins import trusted
from .processes import NODE, private_folder

START_SECONDS = 300
_TRAINER = "import sys; {pin}sys.path[:] = {path!r}; from feddc.flower.client.trainer import main; main({setup!r})"
_PIN = "from feddc.flower.client.pins import enforce; enforce({trusted!r}); "


def answer(spec: tuple[Any, ...], asked: Packet) -> Packet:
    """The answer of this client's trainer."""
    # What lives as long as the SuperNode: itself under `feddc flower node`, else its executor, which started this.
    node = int(os.environ.get(NODE, os.getppid()))
    place = private_folder() / _digest([node, spec[3]])[:16]
    try:
        return _ask(spec, node, place, asked)
    except (EOFError, ConnectionError):
        return _ask(spec, node, place, asked)


def _ask(spec: tuple[Any, ...], node: int, place: Path, asked: Packet) -> Packet:
    with _connection(spec, node, place) as connection:
        send(connection, asked)
        reply = receive(connection)
    if FAILED in reply.config:
        raise SiteError(str(reply.config[FAILED]), str(reply.config[PLACE]))
    return reply


def _connection(spec: tuple[Any, ...], node: int, place: Path) -> Connection:
    """To the trainer that runs this app's code for this client, started if there is none."""
    app = _digest([spec, sys.path])[:16]  # Flower unpacks a changed app to another folder
    sock = place.with_suffix(f".{app}.sock")
    with FileLock(place.with_suffix(".lock")):
        try:
            return _connect(sock)
        except (FileNotFoundError, ConnectionRefusedError):
            sock.unlink(missing_ok=True)
        for old in place.parent.glob(f"{place.name}.*.sock"):  # one trainer for each client: this app was changed
            old.unlink()
        return _start(spec, node, sock)


def _start(spec: tuple[Any, ...], node: int, sock: Path) -> Connection:
    folder = Path(spec[4])
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = folder / f"trainer-{dict(spec[3]).get('partition-id', 'x')}.log"
    pin = _PIN.format(trusted=trusted()) if PIN in os.environ else ""  # before the app is on its path
    code = _TRAINER.format(pin=pin, path=sys.path, setup=json.dumps([spec, str(sock), node]))
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # this process ends after one message, and the trainer stays
        )
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            connection = _connect(sock)
        except (FileNotFoundError, ConnectionRefusedError):
            time.sleep(0.02)
            continue
        process.returncode = 0  # it is on its own now: Popen need not warn that it still runs
        return connection
    raise WorkerError(f"the trainer process did not start: see {log}")


def _connect(sock: Path) -> Connection:
    connection: Connection = Client(str(sock), "AF_UNIX")
    return connection


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, default=str).encode()).hexdigest()
