"""In which rounds an attack or a rule applies: ``sign-flip:3:from=5:until=8``."""

from __future__ import annotations

from dataclasses import dataclass

from .. import specs
from ..errors import check, check_count
from ..specs import Spec

FROM, UNTIL = "from", "until"


@dataclass(frozen=True)
class Window:
    """The rounds from ``first`` to ``last``, both included; without ``last``, to the end."""

    first: int = 1
    last: int | None = None

    def __post_init__(self) -> None:
        check_count(FROM, self.first)
        if self.last is not None:
            check_count(UNTIL, self.last)
            check(self.last >= self.first, f"until={self.last} is before from={self.first}")

    def __contains__(self, round: int) -> bool:
        return self.first <= round and (self.last is None or round <= self.last)

    @property
    def always(self) -> bool:
        """Whether that is every round."""
        return self == Window()

    def on(self, text: str) -> str:
        """The text of an attack or a rule that applies in these rounds."""
        words = [text] + ([f"{FROM}={self.first}"] if self.first > 1 else [])
        return ":".join(words + ([] if self.last is None else [f"{UNTIL}={self.last}"]))


def windowed(text: str) -> tuple[str, Window]:
    """The text without its ``from`` and ``until``, and the rounds that these mean."""
    spec = Spec.parse(text)
    given: dict[str, int] = {}
    words = []
    for word in spec.words:
        key, equals, value = word.partition("=")
        if equals and key in (FROM, UNTIL):
            check(key not in given, f"'{text}' has {key} twice")
            given[key] = specs.convert(key, int, value)
        else:
            words.append(word)
    return str(Spec(spec.name, tuple(words))), Window(given.get(FROM, 1), given.get(UNTIL))
