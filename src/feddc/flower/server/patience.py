"""A run outlives a SuperLink that is too busy for a while, and says why it ends if it is ended from outside.

On a machine with too much work, a SuperLink with a database on disk answers some requests with an error of its own
(status 500, "database is locked" in its log). Flower repeats a request after other errors, but not after this one.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging import WARNING, getLogger
from types import FrameType
from typing import TypeVar

import httpx

from ...errors import RunError

PATIENCE_SECONDS, PAUSE_SECONDS = 300.0, 1.0
NOT_STORED = "ObjectPushError"
"""Flower's exception for arrays that the SuperLink did not store; its public API does not have it."""
ENDING = (signal.SIGINT, signal.SIGTERM)
log = getLogger("flwr").log
T = TypeVar("T")


def patiently(ask: Callable[[], T]) -> T:
    """What ``ask`` returns, asked again while the SuperLink answers with an error of its own; RunError if it stays so.

    An answer of a client that was on its way in such a moment may be lost, as any other that does not arrive.
    """
    began = time.monotonic()
    while True:
        try:
            return ask()
        except Exception as error:
            if not _is_its_own(error):
                raise
            if time.monotonic() - began > PATIENCE_SECONDS:
                raise RunError(
                    f"the SuperLink has answered with errors of its own for {PATIENCE_SECONDS:g} seconds: its log says "
                    "why; start it again, then run again to continue"
                ) from None
            log(WARNING, "feddc: the SuperLink answered with an error of its own; asking again")
        time.sleep(PAUSE_SECONDS)


def _is_its_own(error: Exception) -> bool:
    """Whether the SuperLink, and not the request, is the cause of an error."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.is_server_error
    return type(error).__name__ == NOT_STORED


@contextmanager
def explained(rounds: Callable[[], int]) -> Iterator[None]:
    """While this is open, a signal that ends the run from outside is explained in its log; ``rounds`` are complete."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are none of this thread's business
        return
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in ENDING}

    def explain(number: int, _: FrameType | None) -> None:
        log(
            WARNING,
            "feddc: this run is ended from outside, after round %s: it was stopped, or the SuperLink's executor has "
            "ended or did not hear from it for a minute, as on a machine with too much work (the SuperLink's log says "
            "which). Run again to continue",
            rounds(),
        )
        for each, handler in before.items():
            signal.signal(each, handler)
        signal.raise_signal(number)

    for number in ENDING:
        signal.signal(number, explain)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is explain:
                signal.signal(number, handler)
