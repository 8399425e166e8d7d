"""What runs are judged by: a score with a name, a direction and a unit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """A score. Shares, such as accuracy, are shown in percent; other scores as they are."""

    name: str = "accuracy"
    higher: bool = True
    """Whether higher is better."""
    share: bool = True

    @property
    def unit(self) -> str:
        return "%" if self.share else ""

    @property
    def title(self) -> str:
        """The name with its unit, for axes and columns."""
        return f"{self.name} (%)" if self.share else self.name

    def best(self, values: Iterable[float]) -> float | None:
        return (max if self.higher else min)(values, default=None)

    def reached(self, value: float, target: float) -> bool:
        return value >= target if self.higher else value <= target

    def shown(self, value: float) -> float:
        """The value in its unit."""
        return 100 * value if self.share else value

    def goal(self, target: float) -> str:
        """A target in words: '95 %', or '0.2' for a score that is no share."""
        return f"{round(self.shown(target), 4):g}{' %' if self.share else ''}"

    @property
    def digits(self) -> int:
        """How many decimals its values are shown with."""
        return 2 if self.share else 4


ACCURACY = Measure()
