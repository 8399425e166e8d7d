"""Keeps a SuperNode running: started again until the SuperLink lets it in, and ended with this process.

A SuperNode with a key that crashed is refused for about a minute, as the SuperLink still takes it for connected, and
Flower's own command then ends. One whose SuperLink answers with an error of its own (status 500, as on a machine with
too much work) leaves the federation, but its process stays and does nothing. Every other end of a SuperNode is an end,
with its exit code.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import click

REFUSED = b"Exit Code: 305"
"""What Flower prints when the SuperLink does not let a SuperNode in."""
LOST = re.compile(rb"Server error '500 .*/v1/fleet/")
"""What it prints when it stops asking for messages, or stops telling the SuperLink that it is there."""
GONE_ON = b"Failed to"
"""What such a line begins with when one message was lost, and the SuperNode continues."""
END_SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 20.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def supervise(command: Sequence[str], environment: Mapping[str, str], attempts: int | None = None) -> int:
    """Run a SuperNode, at most ``attempts`` times while it is refused or loses its SuperLink; its exit code."""
    node = Node(command, environment)
    for number in SIGNALS:
        signal.signal(number, node.pass_on)
    pause, tried = FIRST_PAUSE, 0
    while True:
        code, reason = node.run()
        tried += 1
        if not reason or node.stopped.is_set() or tried == attempts:
            return code
        click.echo(f"feddc: {reason}; trying again in {pause:.0f} s", err=True)
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

    def run(self) -> tuple[int, str]:
        """Run it to its end: its exit code, and why it should be started again, if it should."""
        reasons: list[str] = []
        process = subprocess.Popen(
            self.command,
            env=self.environment,
            stderr=subprocess.PIPE,
            process_group=0,  # Ctrl-C reaches this process, which passes it on once
            preexec_fn=self._die_with_parent,
        )
        self._process = process
        reader = threading.Thread(target=_relay, args=(process, reasons), daemon=True)
        reader.start()
        if self.stopped.is_set():  # the signal came while it was being started
            process.send_signal(self._signal)
        code = process.wait()
        reader.join(timeout=1.0)  # a process that it started may still hold its output
        return (code if code >= 0 else 128 - code), next(iter(reasons), "")

    def pass_on(self, signum: int, _: Any) -> None:
        """Hand a signal to the SuperNode, and start no other."""
        self._signal = signum
        self.stopped.set()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signum)

    def _die_with_parent(self) -> None:
        if self._libc is not None:
            self._libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _relay(process: subprocess.Popen[bytes], reasons: list[str]) -> None:
    """Show what the SuperNode says, line by line, and see why it should be started again."""
    assert process.stderr is not None
    with process.stderr as source:
        for line in source:
            os.write(2, line)
            if REFUSED in line:
                reasons.append(
                    "the SuperLink has not let this SuperNode in: its key is not registered, or the SuperLink has not "
                    "yet noticed that it was gone"
                )
            if LOST.search(line) and GONE_ON not in line and not reasons:
                reasons.append(
                    "the SuperLink answered with an error of its own (status 500; its log says why), and this "
                    "SuperNode no longer works"
                )
                threading.Thread(target=_end, args=(process,), daemon=True).start()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a SuperNode that would stay without doing anything."""
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
