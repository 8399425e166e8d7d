"""A warm ClientApp beside a SuperNode: one process that has imported Flower, and forks for every message.

Flower starts `flwr-clientapp` anew for every message, and most of its time is imports. Under `feddc flower node` that
command is ``launcher.py``, which hands its work over to a fork of this process. An app's code is not imported here, but
in the forks, so that a changed app is a new app. This process ends with the SuperNode, and its forks end with it and
with their launchers.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import entry_points
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from typing import Any

from .pins import enforce, unpack_only_the_pinned

Launch = Callable[[], Any]


def serve(listener: socket.socket, supernode: int) -> None:
    """Do the work of every launcher that connects, until the pipe ``supernode`` is closed at its other end."""
    command = flwr_clientapp()
    gc.collect()
    gc.freeze()  # what is here now stays, and need not be copied because a fork looks at it
    at_work: dict[int, tuple[ForkProcess, socket.socket]] = {}
    while supernode not in (ready := wait([listener, supernode, *at_work])):
        for done in at_work.keys() & set(ready):
            process, launcher = at_work.pop(done)
            process.join()
            code = process.exitcode or 0
            with launcher, suppress(OSError):
                launcher.sendall(str(code if code >= 0 else 128 - code).encode())
                launcher.shutdown(socket.SHUT_RDWR)  # its end, even if a later fork still holds it
        if listener in ready:
            launcher, _ = listener.accept()
            process = ForkProcess(target=_work, args=(listener, launcher, command))
            try:
                process.start()
            except OSError:  # no memory, or too many processes: the launcher sees that nothing began
                launcher.close()
            else:
                at_work[process.sentinel] = process, launcher


def flwr_clientapp() -> Launch:
    """What the command `flwr-clientapp` calls, with all that it and an app of ours import."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # threads do not survive a fork; the forks have their own environment
    import feddc.flower.client.app  # noqa: F401

    [entry] = entry_points(group="console_scripts", name="flwr-clientapp")
    command: Launch = entry.load()
    enforce()  # from here on, and in every fork
    unpack_only_the_pinned()
    return command


def _work(listener: socket.socket, launcher: socket.socket, command: Launch) -> None:
    """In a fork: become what the launcher would have been."""
    listener.close()
    argv, environment, folder = _task(launcher)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = argv
    _fresh_randomness()
    threading.Thread(target=_watch, args=(launcher,), daemon=True).start()
    launcher.sendall(b"+")
    sys.exit(command())


def _task(launcher: socket.socket) -> Any:
    """The launcher's arguments, environment and folder; its files are taken on."""
    launcher.settimeout(10)
    head, files, _, _ = socket.recv_fds(launcher, 8, 3)
    for standard, file in enumerate(files):
        os.dup2(file, standard)
        os.close(file)
    size, task = int.from_bytes(head, "big"), b""
    while len(task) < size:
        part = launcher.recv(size - len(task))
        if not part:
            raise ConnectionError("the launcher has gone")
        task += part
    launcher.settimeout(None)
    return json.loads(task)


def _fresh_randomness() -> None:
    """Numbers of its own for every fork: noise that repeats protects nobody. Python's own generator sees to itself."""
    if random := sys.modules.get("numpy.random"):
        random.seed()


def _watch(launcher: socket.socket) -> None:
    """Take the signals that the launcher passes on; end when it ends, or the process that forked this one."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    with suppress(OSError):  # a launcher that was killed before it read all
        while parent.sentinel not in wait([launcher, parent.sentinel]) and (signals := launcher.recv(16)):
            for number in signals:
                os.kill(os.getpid(), number)
    os._exit(1)
