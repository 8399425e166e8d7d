"""Learning rates that are given round by round: a list, or a function of the round.

Stored, typed and sent as one text: "0.1,0.05,0.01" (the last is kept), or "package.module:function". A function that no
text can name, such as a lambda, works in the present process and its workers, and cannot be stored.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from .errors import ConfigError, check_number
from .specs import lookup

Rates: TypeAlias = str | Sequence[float] | Callable[[int], float]


def as_rates(given: Any) -> str | Callable[[int], float]:
    """The text of a schedule, or the function itself where none names it; ConfigError if it is neither."""
    if callable(given):
        found: str | Callable[[int], float] = _name_of(given) or given
    else:
        found = given if isinstance(given, str) else _text(given)
    rate_in(found, 1)
    return found


def rate_in(rates: str | Callable[[int], float], round: int) -> float:
    """The learning rate of a round (from 1)."""
    if isinstance(rates, str) and ":" not in rates:
        numbers = _numbers(rates)
        return numbers[min(round, len(numbers)) - 1]
    function = _function(rates) if isinstance(rates, str) else rates
    rate = function(round)
    try:
        rate = float(rate)
    except (TypeError, ValueError):
        raise ConfigError(f"the learning rate of round {round} must be a number, not {rate!r}") from None
    check_number(f"the learning rate of round {round}", rate, 0, above=True)
    return rate


def _text(given: Any) -> str:
    try:
        return ",".join(repr(float(each)) for each in given)
    except (TypeError, ValueError):
        wanted = "a number, a list of numbers, a function of the round, or the name of one (module:function)"
        raise ConfigError(f"the learning rate must be {wanted}, not {given!r}") from None


@lru_cache
def _numbers(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(each) for each in text.split(","))
    except ValueError:
        wanted = "numbers with commas between them, or module:function"
        raise ConfigError(f"rates must be {wanted}, not '{text}'") from None
    for round, rate in enumerate(found, start=1):
        check_number(f"the learning rate of round {round}", rate, 0, above=True)
    return found


@lru_cache
def _function(name: str) -> Callable[[int], float]:
    return lookup("learning-rate schedule", {}, name)


def _name_of(function: Any) -> str | None:
    """The name under which a function can be imported; None for a lambda, or one that a script or notebook defines."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if module in (None, "__main__") or getattr(sys.modules.get(module), name, None) is not function:
        return None
    return f"{module}:{name}"
