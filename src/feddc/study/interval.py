"""When a checkpoint is due."""

from __future__ import annotations

import re
import time

from ..errors import ConfigError

SHARE = 0.02  # of the run's time, at most
FIRST_SECONDS, FIRST_RATE = 0.1, 50e6  # what the first checkpoint is assumed to take: so long, and so many bytes/s


class Interval:
    """``auto``, ``off``, a number of rounds such as ``10``, or minutes such as ``5min``.

    ``auto`` waits until the next one would take no more than 2 % of the time since the last, and all of them together
    no more than 2 % of the run, judged by what they took so far. Only differences of a monotonic clock count: setting
    the machine's clock changes nothing.
    """

    def __init__(self, text: str) -> None:
        self._auto, self._rounds, self._seconds = text == "auto", 0, 0.0
        if not (found := re.fullmatch(r"auto|off|(\d{1,18})|(\d{1,18}(?:\.\d{1,18})?)min", text)):
            raise ConfigError(f"checkpoint must be auto, off, a number of rounds, or minutes as in 5min, not '{text}'")
        if found[1] is not None or found[2] is not None:
            self._rounds, self._seconds = int(found[1] or 0), 60 * float(found[2] or 0)
            if not (self._rounds or self._seconds):
                raise ConfigError(f"checkpoint must be above 0, or off, not '{text}'")
        self.count, self.spent = 0, 0.0
        self._cost, self._bytes = 0.0, 0
        self._began = self._ended = time.monotonic()

    def due(self, rounds: int, size: int) -> bool:
        """Whether to write one now, ``rounds`` rounds after the last, which would be of ``size`` bytes."""
        now = time.monotonic()
        since = now - self._ended
        if self._auto:
            expected = self._expected(size)
            return SHARE * since >= expected and SHARE * (now - self._began) >= self.spent + expected
        return 0 < self._rounds <= rounds or 0 < self._seconds <= since

    def took(self, seconds: float, size: int) -> None:
        """Note what a checkpoint has cost."""
        self.count, self.spent = self.count + 1, self.spent + seconds
        self._cost, self._bytes, self._ended = seconds, size, time.monotonic()

    def _expected(self, size: int) -> float:
        if not self.count:
            return FIRST_SECONDS + size / FIRST_RATE
        usual = max(self._cost, self.spent / self.count)
        return usual * max(1.0, size / max(1, self._bytes))
