"""What may leave a site when something goes wrong there: a code, and a place in feddc's own code.

The text of an exception may quote a cell of a patient's row, a file's name, or whatever else the data holds. It stays
in the site's own log, together with the traceback. What travels is a word of ``CODES`` and a place such as
``data/formats/tabular.py:61``, which can be looked up by whoever has feddc's source and says nothing of the data.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from ..errors import ConfigError, DataError, DivergedError, RunError, StorageError, WorkerError

CODES: dict[str, type[BaseException]] = {  # the first that fits counts
    "data": DataError,
    "config": ConfigError,
    "diverged": DivergedError,
    "state": RunError,
    "storage": StorageError,
    "trainer": WorkerError,
    "memory": MemoryError,
    "import": ImportError,
    "disk": OSError,
    "code": Exception,
}
FAILED, PLACE = "failed", "place"
"""The keys of an answer that say what failed, and where."""
_PACKAGE = Path(__file__).parents[1]
_PLACE = re.compile(r"[A-Za-z_/]{1,80}\.py:[0-9]{1,5}")


class SiteError(WorkerError):
    """A failure in this site's trainer process, whose text and traceback are in its log: only this is known here."""

    def __init__(self, code: str, place: str) -> None:
        self.code, self.place = code, place
        super().__init__(f"the trainer failed: {explain(code, place)}")


def report(error: BaseException) -> dict[str, str]:
    """What the server is told of an exception."""
    if isinstance(error, SiteError):
        return {FAILED: error.code, PLACE: error.place}
    code = next((name for name, kind in CODES.items() if isinstance(error, kind)), "code")
    return {FAILED: code, PLACE: _place(error)}


def explain(code: object, place: object) -> str:
    """A report in words. It came over a network: what is not one of our codes and places is not repeated."""
    known = code if isinstance(code, str) and code in CODES else "code"
    if not isinstance(place, str) or not _PLACE.fullmatch(place):
        return f"error '{known}'"
    return f"error '{known}' at {place}"


def _place(error: BaseException) -> str:
    """The innermost line of feddc's own code that the exception passed; empty if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(_PACKAGE):
            return f"{path.relative_to(_PACKAGE).as_posix()}:{frame.lineno}"
    return ""
