"""Everything that feddc raises on purpose.

    FedDCError
    ├── ConfigError      an option, name or number that cannot be used      exit code 2
    ├── DataError        data, labels or a split that cannot be used        exit code 2
    ├── RunError         a run directory that cannot be used                exit code 2
    ├── DivergedError    training produced NaN, Inf or absurd numbers       exit code 1
    ├── WorkerError      a worker process died or could not start           exit code 1
    ├── StorageError     a disk that is full or fails in mid-run      exit code 1
    ├── ProtocolError    a message of secure aggregation that is refused    exit code 1
    └── StoppedError     Ctrl-C, or a signal that asks the run to end       exit code 130, 143, 129

Each message is one sentence that says what is wrong, where, and what would be right.
"""

from __future__ import annotations

import difflib
import math
import numbers
import signal
from collections.abc import Iterable, Sequence
from typing import Any


class FedDCError(Exception):
    """Base of all errors raised on purpose; ``exit_code`` is what the command line ends with."""

    exit_code: int = 2


class ConfigError(FedDCError, ValueError):
    """An option, name or number that cannot be used."""


class DataError(FedDCError, ValueError):
    """Data, labels or a split that cannot be used."""


class RunError(FedDCError):
    """A run directory that cannot be used."""


class InUseError(RunError):
    """A run directory that another process is writing to."""


class DivergedError(FedDCError):
    """Training produced NaN, Inf or absurd numbers, which were not averaged into the model."""

    exit_code = 1

    def __init__(
        self,
        method: str,
        round: int,
        client: int | None = None,
        what: str = "NaN or Inf",
        hints: Sequence[str] = (),
    ) -> None:
        """``hints`` are what to try besides, for the method at hand."""
        self.method, self.round, self.client, self.what = method, round, client, what
        who = "the global model" if client is None else f"client {client}"
        tries = either(["a smaller learning rate", "a smaller clip norm", *hints])
        super().__init__(f"{method} diverged: {who} has {what} in round {round}; try {tries}")

    @classmethod
    def read(cls, sentence: str) -> DivergedError:
        """The error that a run directory holds."""
        error = cls("", 0)
        error.args = (sentence,)
        return error


class WorkerError(FedDCError):
    """A worker process died, failed in the user's code, or could not start."""

    exit_code = 1


class StorageError(FedDCError):
    """A disk that is full, or fails, in the middle of a run; the run can be continued."""

    exit_code = 1


class ProtocolError(FedDCError):
    """A message of secure aggregation that is malformed, stale, forged or out of turn, or too few that are not."""

    exit_code = 1


class StoppedError(FedDCError):
    """The run was asked to end, by Ctrl-C or a signal; it can be continued."""

    def __init__(self, by: signal.Signals, what: str) -> None:
        self.signal, self.what, self.exit_code = by, what, 128 + by
        super().__init__(f"{'interrupted' if by == signal.SIGINT else f'ended by {by.name}'} {what}")


def first_line(error: BaseException) -> str:
    """What a sentence can hold of another library's error."""
    return str(error).strip().partition("\n")[0]


def either(choices: Sequence[str]) -> str:
    """Choices as a sentence lists them: a, b or c."""
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last


def check(condition: bool, sentence: str) -> None:
    """Raise ConfigError with ``sentence`` unless ``condition`` holds."""
    if not condition:
        raise ConfigError(sentence)


def check_number(
    name: str, value: Any, low: float, high: float = math.inf, *, above: bool = False, optional: bool = False
) -> None:
    """Raise ConfigError unless ``value`` is a finite number in [low, high], or in (low, high] with ``above``.

    With ``optional`` it may also be None.
    """
    if optional and value is None:
        return
    wanted = f"{'above' if above else 'at least'} {low:g}" + (f" and at most {high:g}" if high < math.inf else "")
    good = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    good = good and low <= value <= high and not (above and value == low)
    check(good, f"{name} must be {wanted}, not {value!r}")


def check_count(name: str, value: Any, low: int = 1, high: int = 2**63 - 1, *, optional: bool = False) -> None:
    """Raise ConfigError unless ``value`` is a whole number, ``low`` or more and ``high`` at most, or ``optional``."""
    if optional and value is None:
        return
    good = isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= low
    check(good, f"{name} must be a whole number, {low} or more, not {value!r}")
    check(int(value) <= high, f"{name} must be at most {high}, not {value}")


def unknown(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """The error for a name that does not exist, with the nearest one suggested."""
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(names)}"
    return ConfigError(f"unknown {kind} '{name}': {hint}")
