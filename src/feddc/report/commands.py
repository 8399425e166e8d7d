"""The commands that run a report's runs again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace

from ..study.config import FIELDS, Config, resolve
from .lines import Setting


def commands(setting: Setting) -> list[str]:
    """One command for each set of runs that differ in nothing but the method and the seed."""
    places: dict[Config, dict[int, list[str]]] = {}
    for run in setting.runs:
        seeds = places.setdefault(replace(run.config, method="fedavg", seed=0), {})
        seeds.setdefault(run.config.seed, []).append(run.config.method)
    found = []
    for shared, seeds in places.items():
        alike: dict[tuple[str, ...], list[int]] = {}
        for seed, methods in seeds.items():
            alike.setdefault(tuple(methods), []).append(seed)
        found += [command(replace(shared, seed=each[0]), list(methods), each) for methods, each in alike.items()]
    return found


def command(shared: Config, methods: list[str], seeds: Sequence[int] = ()) -> str:
    """`feddc run` for one method and seed, else `feddc compare`; only what differs from the usual is written out."""
    usual = asdict(resolve({"data": shared.data, "method": "fedavg"}))
    if shared.cohort_size is not None:
        usual["participation"] = None
    words = ["feddc", "run", "--method", methods[0]]
    if len(methods) > 1 or len(seeds) > 1:
        words = ["feddc", "compare", "--methods", ",".join(methods)]
    if len(seeds) > 1:
        words += ["--seeds", ",".join(map(str, seeds))]
    for key in FIELDS:
        value = getattr(shared, key)
        flag = "--" + key.replace("_", "-")
        if key == "method" or (value == usual[key] and key != "data") or (key == "seed" and len(seeds) > 1):
            continue
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        else:
            words += [flag, "none" if value is None else str(value)]
    return shlex.join(words)
