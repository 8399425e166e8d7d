"""Keeps a SuperNode running: started again until the SuperLink lets it in, and ended with this process.

A SuperNode with a key that crashed is refused for about a minute, as the SuperLink still takes it for connected, and
Flower's own command then ends. Every other end of a SuperNode is an end, with its exit code.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Any

import click

REFUSED = b"Exit Code: 305"
"""What Flower prints when the SuperLink does not let a SuperNode in."""
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 20.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def supervise(command: Sequence[str], environment: Mapping[str, str], attempts: int | None = None) -> int:
    """Run a SuperNode, at most ``attempts`` times while it is refused; its exit code."""
    node = Node(command, environment)
    for number in SIGNALS:
        signal.signal(number, node.pass_on)
    pause, tried = FIRST_PAUSE, 0
    while True:
        code, refused = node.run()
        tried += 1
        if not refused or node.stopped.is_set() or tried == attempts:
            return code
        click.echo(
            f"feddc: the SuperLink has not let this SuperNode in: its key is not registered, or the SuperLink has not "
            f"yet noticed that it was gone; trying again in {pause:.0f} s",
            err=True,
        )
        if node.stopped.wait(pause):
            return code
        pause = min(2 * pause, LONGEST_PAUSE)


class Node:
    """One SuperNode process at a time."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.command, self.environment = command, environment
        self.stopped = threading.Event()
        self._signal: int = signal.SIGTERM
        self._process: subprocess.Popen[bytes] | None = None
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def run(self) -> tuple[int, bool]:
        """Run it to its end: its exit code, and whether it was refused."""
        refused = threading.Event()
        process = subprocess.Popen(
            self.command,
            env=self.environment,
            stderr=subprocess.PIPE,
            process_group=0,  # Ctrl-C reaches this process, which passes it on once
            preexec_fn=self._die_with_parent,
        )
        self._process = process
        reader = threading.Thread(target=_relay, args=(process.stderr, refused), daemon=True)
        reader.start()
        if self.stopped.is_set():  # the signal came while it was being started
            process.send_signal(self._signal)
        code = process.wait()
        reader.join(timeout=1.0)  # a process that it started may still hold its output
        return (code if code >= 0 else 128 - code), refused.is_set()

    def pass_on(self, signum: int, _: Any) -> None:
        """Hand a signal to the SuperNode, and start no other."""
        self._signal = signum
        self.stopped.set()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signum)

    def _die_with_parent(self) -> None:
        if self._libc is not None:
            self._libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _relay(source: IO[bytes] | None, refused: threading.Event) -> None:
    """Show what the SuperNode says, line by line, and see whether it was refused."""
    assert source is not None
    with source:
        for line in source:
            if REFUSED in line:
                refused.set()
            os.write(2, line)
