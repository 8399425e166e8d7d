"""Ctrl-C and the signals that ask a program to end: the first lets the round finish, the second leaves at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..errors import StoppedError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While entered, ``received`` is the signal that asks this process to end, or None."""

    sentence = b"feddc: finishing this round and keeping it; press again to stop now\n"

    def __init__(self, forward: Callable[[signal.Signals], None] | None = None) -> None:
        """``forward`` is called with every signal, where other processes are to end, too."""
        self.received: signal.Signals | None = None
        self._forward = forward
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():  # Python allows handlers nowhere else
            for each in SIGNALS:
                if signal.getsignal(each) is not signal.SIG_IGN:  # nohup and shells' background jobs ignore some
                    self._before[each] = signal.signal(each, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        by = signal.Signals(number)
        if self._forward is not None:
            self._forward(by)
        elif self.received is not None:
            raise StoppedError(by, "in the middle of a round")
        if self.received is None:
            os.write(2, self.sentence)  # not print: the signal may have come in the middle of one
        self.received = by
