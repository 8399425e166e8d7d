"""Run directories as version 0.1 wrote them, made without the package: any version can be asked for its page."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path

import pytest

from feddc.cli import main

CLIENTS = 4
TARGET = 0.95


def by_hand(
    path: Path,
    method: str,
    scores: Sequence[float],
    *,
    seed: int = 0,
    rounds: int | None = None,
    seconds: float = 0.01,
    cosines: Sequence[float] = (),
) -> None:
    """One run with these accuracies. It is finished unless it was to have more ``rounds`` than there are scores."""
    path.mkdir(parents=True)
    values = {"data": "digits", "method": method, "clients": CLIENTS, "seed": seed, "target": TARGET}
    values["rounds"] = rounds or len(scores)
    (path / "config.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
    (path / "split.json").write_text(
        json.dumps({"format": 1, "counts": [[20, 1, 0], [0, 30, 5], [9, 0, 9], [1, 1, 40]]})
    )
    lines = []
    for i, score in enumerate(scores):
        norms = [1.0 + (i + each) % 3 for each in range(CLIENTS)]
        drift = {"update": norms, "gap": norms, "drift": norms, "cosine": cosines[i] if cosines else 0.1}
        record = {"round": i + 1, "accuracy": score, "loss": 1.0, "participants": list(range(CLIENTS)), "drift": drift}
        lines.append(json.dumps({**record, "bytes_up": 4000, "bytes_down": 4000, "seconds": seconds}) + "\n")
    (path / "records.jsonl").write_text("".join(lines))
    if len(scores) == values["rounds"]:
        (path / "summary.json").write_text(json.dumps({"format": 1, "status": "finished"}))


def over_seeds(path: Path, method: str, seeds: Sequence[Sequence[float]]) -> None:
    """A run for each seed."""
    for seed, scores in enumerate(seeds):
        by_hand(path / f"{method}-{seed}", method, scores, seed=seed)


def reaching(rounds: int, of: int) -> list[float]:
    """Accuracies of a run that reaches the target in that round, or not at all if it has fewer."""
    return [0.96 if i >= rounds else 0.5 for i in range(1, of + 1)]


def report(folder: Path, *more: str) -> Path:
    """The page that `feddc report` makes of the runs in a folder."""
    page = folder.parent / f"{folder.name}.html"
    with pytest.raises(SystemExit) as end:
        main(["report", str(folder), "-o", str(page), *more])
    assert not end.value.code
    return page


def words(page: Path) -> str:
    """What a reader sees of it, without scripts, definitions and markup, and without regard to capitals."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", text, flags=re.DOTALL)
    text = re.sub(r"<div popover.*?</div>|<details.*?</details>", " ", text, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split()).lower()


def first_screen(page: Path) -> str:
    """The part above the tabs."""
    return words(page).partition("convergence tables")[0]
