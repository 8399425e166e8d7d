"""Looking on while a simulation runs: trackers, dashboards, one's own prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .records import Record

if TYPE_CHECKING:
    from .simulation import Simulation


class Callback:
    """Override what you need and pass an instance: ``feddc.train(…, callbacks=[Mine()])``.

    What a callback raises ends the run: a tracker that silently stopped tracking would be worse.
    """

    def on_start(self, simulation: Simulation) -> None:
        """Before the first round."""

    def on_record(self, record: Record) -> None:
        """After every round."""

    def on_end(self) -> None:
        """After the last round, and also when the run is interrupted or diverges."""
