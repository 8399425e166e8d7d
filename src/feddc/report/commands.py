"""The commands that run a report's runs again."""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace

from ..study.config import FIELDS, Config, resolve
from .lines import Setting


def commands(setting: Setting) -> list[str]:
    """One command for each set of runs that differ in nothing but the method."""
    places: dict[Config, list[str]] = {}
    for run in setting.runs:
        places.setdefault(replace(run.config, method="fedavg"), []).append(run.config.method)
    return [command(shared, methods) for shared, methods in places.items()]


def command(shared: Config, methods: list[str]) -> str:
    """`feddc run` for one method, `feddc compare` for several; only what differs from the usual is written out."""
    usual = asdict(resolve({"data": shared.data, "method": "fedavg"}))
    if shared.cohort_size is not None:
        usual["participation"] = None
    words = ["feddc", "run", "--method", methods[0]]
    if len(methods) > 1:
        words = ["feddc", "compare", "--methods", ",".join(methods)]
    for key in FIELDS:
        value = getattr(shared, key)
        flag = "--" + key.replace("_", "-")
        if key == "method" or (value == usual[key] and key != "data"):
            continue
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        else:
            words += [flag, "none" if value is None else str(value)]
    return shlex.join(words)
