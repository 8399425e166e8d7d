"""What a run directory says of itself: its format, whether the run has ended, and what it was made with."""

from __future__ import annotations

import dataclasses
import json
import platform
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

import feddc

from ..errors import RunError
from .config import Config

FORMAT = 2
"""1 had neither run.json nor checkpoints; its runs that have ended are read like any other."""
DirectoryStatus = Literal["nothing", "under way", "format 1", "ended"]


def status(path: Path) -> DirectoryStatus:
    """What a directory holds. A run of format 1 that has not ended has no checkpoints to continue from."""
    there = {name for name in ("config.toml", "run.json", "records.jsonl", "checkpoint") if (path / name).exists()}
    if (path / "summary.json").is_file():
        return "ended"
    if not there:
        return "nothing"
    return "format 1" if there == {"config.toml", "records.jsonl"} else "under way"


def ready(config: Config, path: Path) -> tuple[Config, bool]:
    """The configuration to continue with here, and whether there is something to continue.

    A run is continued with the arithmetic that it began with, whatever "auto" would choose on this machine.
    """
    if status(path) != "under way":
        return config, False
    if not any((path / name).exists() for name in ("run.json", "records.jsonl")):  # killed before it began
        return config, True
    executor, on, device = read_info(path)["arithmetic"].partition(" on ")
    if on:
        return dataclasses.replace(config, executor=executor, workers=None, device=device), True
    return dataclasses.replace(config, device="cpu"), True


def versions() -> dict[str, str]:
    """What the bits of a result may depend on besides the configuration."""
    return {
        "feddc": feddc.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "processor": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
    } | ({} if (found := commit()) is None else {"commit": found})


@cache
def commit() -> str | None:
    """The commit of the checkout that feddc runs from, with a + where its files were changed; None if it has none."""
    root = Path(feddc.__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    words = ["git", "-C", str(root), "describe", "--always", "--abbrev=7", "--exclude=*", "--dirty=+"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=10).stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        return None


def version_changes(then: Mapping[str, str]) -> str:
    """What computes differently here, in words; empty where nothing does."""
    now, matters = versions(), ("torch", "numpy", "processor")
    return ", ".join(f"{key} {then.get(key)} (here {now[key]})" for key in matters if then.get(key) != now[key])


@contextmanager
def reading(path: Path, otherwise: str = "is corrupted") -> Iterator[None]:
    """Around the reading of a file: what goes wrong becomes one sentence, such as that it is corrupted."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(f"{path} {otherwise}: {error}") from None


def read_info(path: Path) -> dict[str, Any]:
    """The content of run.json; refused if a newer feddc made it."""
    with reading(path / "run.json"):
        info: dict[str, Any] = json.loads((path / "run.json").read_text(encoding="utf-8"))
        if not isinstance(info["format"], int) or not isinstance(info["arithmetic"], str):
            raise ValueError("it has another form")
    if info["format"] > FORMAT:
        raise RunError(f"{path} has format {info['format']}, but this feddc reads up to {FORMAT}: use a newer feddc")
    return info
