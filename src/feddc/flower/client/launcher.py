"""What a SuperNode under `feddc flower node` starts as `flwr-clientapp`: it has the warm process do the work.

    python -I -S launcher.py SOCKET FOLDER/flwr-clientapp ARGUMENT…

It hands its arguments, environment, folder and output to the process that listens at SOCKET (``warm.py``), passes
signals on, and ends with the exit code of the work. If that process cannot begin the work, Flower's own command, the
next one on the PATH, takes this one's place. It runs for every message, so it imports nothing that takes time.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

COMMAND = "flwr-clientapp"
PIN = "FEDDC_APP_HASH"
"""The environment variable with the hash of the only app that this site runs."""
BEGIN_SECONDS = 20
OTHER_PACKAGES = "--allow-runtime-dependency-installation"
"""With this option the work needs other packages than the warm process has."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)


def main(place: str, script: str, arguments: list[str]) -> int:
    """Have the work done; the exit code."""
    folder = os.path.dirname(script)  # noqa: PTH120  (pathlib takes as long to import as all the rest)
    if OTHER_PACKAGES in arguments:
        return _genuine(folder, arguments)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until there is somebody to pass them on to
    try:
        work = _begin(place, [script, *arguments])
    except OSError:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return _genuine(folder, arguments)
    for number in SIGNALS:
        signal.signal(number, lambda signum, _: _pass_on(work, signum))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    answer = b""
    while part := work.recv(64):
        answer += part
    return int(answer or 1)  # empty: it was killed


def _begin(place: str, argv: list[str]) -> socket.socket:
    """Hand the work over; OSError if it was not begun."""
    work = socket.socket(socket.AF_UNIX)
    work.settimeout(BEGIN_SECONDS)
    work.connect(place)
    task = json.dumps([argv, dict(os.environ), os.getcwd()]).encode()  # noqa: PTH109
    socket.send_fds(work, [len(task).to_bytes(8, "big")], [0, 1, 2])
    work.sendall(task)
    if work.recv(1) != b"+":
        work.close()
        raise ConnectionError("the work was not begun")
    work.settimeout(None)
    return work


def _pass_on(work: socket.socket, signum: int) -> None:
    try:  # noqa: SIM105  (contextlib takes time to import)
        work.send(bytes([signum]))
    except OSError:  # the work has just ended
        pass


def _genuine(folder: str, arguments: list[str]) -> int:
    """Become the next flwr-clientapp on the PATH or, at a site that has pinned an app, the one that keeps to it."""
    if PIN in os.environ:
        if OTHER_PACKAGES in arguments:
            print("feddc: this site runs one pinned app, in the packages that it has", file=sys.stderr)
            return 1
        os.execv(sys.executable, [sys.executable, "-P", "-m", "feddc.flower.client.pins", *arguments])
    for place in os.get_exec_path():
        program = os.path.join(place, COMMAND)  # noqa: PTH118
        if place != folder and os.access(program, os.X_OK):
            os.execv(program, [program, *arguments])
    print("flwr-clientapp was not found on the PATH", file=sys.stderr)
    return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
