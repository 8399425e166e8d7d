"""What runs are judged by, with the words for it."""

from __future__ import annotations

from dataclasses import dataclass

from ...tasks import Score


@dataclass(frozen=True)
class Measure(Score):
    """A task's score as people read it: shares, such as accuracy, in percent, other scores as they are."""

    @property
    def unit(self) -> str:
        return "%" if self.percent else ""

    @property
    def title(self) -> str:
        """The name with its unit, for axes and columns."""
        return f"{self.name} (%)" if self.percent else self.name

    @property
    def digits(self) -> int:
        """How many decimals its values are shown with."""
        return 2 if self.percent else 4

    def shown(self, value: float) -> float:
        """The value in its unit."""
        return 100 * value if self.percent else value

    def goal(self, target: float) -> str:
        """A target in words: '95 %', or '0.2' for a score that is no share."""
        return f"{round(self.shown(target), 4):g}{' %' if self.percent else ''}"


ACCURACY = Measure()
