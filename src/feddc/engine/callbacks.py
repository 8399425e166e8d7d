"""Callbacks of a simulation: trackers, dashboards, your own output."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..errors import check
from .records import Record

if TYPE_CHECKING:
    from .simulation import Simulation


class Callback:
    """Override what you need and pass an instance: ``feddc.train(…, callbacks=[Mine()])``.

    An exception in a callback ends the run: a tracker that silently stopped tracking would be worse.
    """

    def on_start(self, simulation: Simulation) -> None:
        """Before the first round."""

    def on_record(self, record: Record) -> None:
        """After every round."""

    def on_end(self) -> None:
        """After the last round, and also when the run is interrupted or diverges."""


def checked_callbacks(given: Any) -> list[Callback]:
    """The callbacks as a list; refused unless each has the three functions."""
    wanted = "callbacks must be a list of feddc.Callback objects"
    check(isinstance(given, Iterable), f"{wanted}, not {given!r}")
    found = list(given)
    for each in found:
        good = not inspect.isclass(each) and all(hasattr(each, name) for name in ("on_start", "on_record", "on_end"))
        check(good, f"{wanted}, not of {each!r}")
    return found
