"""The configuration: every field has a role, and everything that depends on a field derives from that."""

from __future__ import annotations

import dataclasses
import json
import typing
from pathlib import Path
from typing import Any, Literal

import pytest

from feddc.options import Keywords, LocalTraining, Options, Role
from feddc.study.config import FIELDS, ROLES, Config, from_toml, group_key, resolve, result_digest, seed_key, to_toml
from feddc.study.sources import Named

RESULTS = Path(__file__).parents[2] / "docs" / "results"
# Another value, where one cannot be made up from the field's type.
SPECIAL: dict[str, Any] = {
    "method": "fedavg",
    "data": "synthetic",
    "model": "fcn:9",
    "checkpoint": "off",
    "executor": "in-process",
    "device": "cpu",
    "rates": "0.5,0.25",
}


def another(key: str) -> Any:
    """A value that is allowed and is not the default."""
    usual, kind = FIELDS[key].default, typing.get_type_hints(Config)[key]
    kind = next((each for each in typing.get_args(kind) if each in (int, float, str)), kind)
    if typing.get_origin(kind) is Literal:
        return next(each for each in typing.get_args(kind) if each != usual)
    if kind is bool:
        return not usual
    if kind is int:
        return (usual or 0) + 2
    return 0.25 if kind is float else SPECIAL.get(key, "iid")


OTHER = {key: another(key) for key in FIELDS}


def changed(key: str) -> Config:
    return dataclasses.replace(Config(), **{key: OTHER[key]})


@pytest.mark.parametrize("key", FIELDS)
def test_every_field_has_a_role_and_the_role_decides(key: str) -> None:
    role = ROLES[key]
    assert role in typing.get_args(Role)
    assert FIELDS[key].metadata["help"]
    before, after = Config(), changed(key)
    assert (result_digest(after) != result_digest(before)) == (role != "run")
    assert (group_key(after) != group_key(before)) == (role == "cell")
    assert (seed_key(after) != seed_key(before)) == (role == "seed")


@pytest.mark.parametrize("key", FIELDS)
def test_every_field_survives_the_file(key: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(to_toml(changed(key)), encoding="utf-8")
    assert from_toml(tmp_path / "config.toml") == changed(key)


@pytest.mark.parametrize("text", ['a"b', "a\\b", "two\nlines", "tab\t", "\x7f\x00\x1b", "größe", "'"])
def test_any_text_survives_the_file(text: str, tmp_path: Path) -> None:
    config = dataclasses.replace(Config(), model=f"resnet18:weights={text}")
    (tmp_path / "config.toml").write_text(to_toml(config), encoding="utf-8")
    assert from_toml(tmp_path / "config.toml") == config


def test_the_simulation_has_every_value_of_the_configuration() -> None:
    other = OTHER | {"rates": None}  # they go neither with warmup nor with cosine
    config = Config(**other)
    for part, whole in ((config.training, LocalTraining), (config.options, Options)):
        found = part if isinstance(part, dict) else vars(part)
        assert found == {field.name: other[field.name] for field in dataclasses.fields(whole)}
    chosen = resolve({"clients": 7, "rounds": 3, "clip_norm": 3.0, "weight_decay": 0.5, "seed": 4, "dropout": 0.5})
    simulation = Named().simulation(chosen)
    assert simulation.training == chosen.training
    assert simulation.options == Options(**chosen.options)
    assert (simulation.rounds, len(simulation.federation)) == (3, 7)


def test_keywords_are_the_options() -> None:
    hints = {name: hint for name, hint in typing.get_type_hints(Options).items() if name in ROLES}
    assert typing.get_type_hints(Keywords) == hints


def test_stored_results_keep_their_names() -> None:
    """A cell that an earlier version stored is found again."""
    stored = [pair for file in RESULTS.glob("*.json") for pair in json.loads(file.read_text()).items()]
    assert len(stored) > 50
    for key, values in stored:
        assert key.endswith(result_digest(Config(**values["config"]))[:8]), key
