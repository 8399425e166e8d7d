"""What a comparison or a study is going to run, kept in its folder until it is done, so that it can be continued."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import FedDCError, RunError
from ..storage.atomic import write_whole
from .cells import Cell, Number
from .config import Config
from .runinfo import FORMAT


@dataclass(frozen=True)
class Plan:
    """The runs of one command; ``row`` of each cell is its label in a comparison."""

    kind: Literal["compare", "study"]
    stem: str
    cells: tuple[Cell, ...]
    report: str | None = None
    """The folder of the page that a study makes at its end."""

    def write(self, out: Path) -> Path:
        """Keep the plan in ``out``. A folder may hold several; the same one again is the same file."""
        text = json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=1) + "\n"
        path = out / f"plan-{hashlib.sha256(text.encode()).hexdigest()[:8]}.json"
        write_whole(path, text)
        return path


def plans(out: Path) -> list[Path]:
    """The plans in a folder that are not done."""
    return sorted(out.glob("plan-????????.json"))


def read_plan(path: Path) -> Plan:
    """The plan in a file."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("format") > FORMAT:
            raise RunError(f"{path} was made by a newer feddc: use that one")
        cells = tuple(_cell(each) for each in content.pop("cells"))
        return Plan(cells=cells, **content)
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except RunError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError, FedDCError) as error:
        raise RunError(f"{path} is not as it was written ({error}): repeat the command that made it") from None


def _cell(values: dict[str, Any]) -> Cell:
    config = Config(**values.pop("config"))
    published = tuple(None if each is None else Number(**each) for each in values.pop("published"))
    return Cell(config=config, targets=tuple(values.pop("targets")), published=published, **values)
