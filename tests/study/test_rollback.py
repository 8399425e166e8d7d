"""Rounds taken back: the run that never saw them, to the last bit, and what was undone kept aside."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import feddc
from feddc.errors import ConfigError, RunError
from feddc.study.config import from_toml
from feddc.study.rollback import roll_back
from feddc.study.rundir import read_records
from tests.conftest import FAST, make_federation
from tests.study.test_resume import config, interrupted, result, run

ATTACKED = {"attack": "sign-flip:2:from=3", "method": "feddc", "participation": 0.5, "checkpoint": "1"}


def files(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "feddyn", "feddc:server=yogi"])
@pytest.mark.parametrize(("keep", "ended"), [(0, False), (4, True)])
def test_attacked_rounds_taken_back_leave_no_trace(method: str, keep: int, ended: bool, tmp_path: Path) -> None:
    """Attackers come in round 3, are noticed after round 5 or 6 and removed; the honest run never saw them."""
    honest = config(**ATTACKED | {"attack": None, "method": method})
    run(honest, tmp_path / "honest")
    attacked = config(**ATTACKED | {"method": method, "keep": keep})
    place = tmp_path / "run"
    run(attacked, place) if ended else interrupted(attacked, place, 5)
    before, rounds = read_records(place / "records.jsonl"), 4 if ended else 3
    after = roll_back(place, rounds, attack=None)
    assert after.attack is None
    said: list[str] = []
    run(from_toml(place / "config.toml"), place, said=said)
    assert result(place) == result(tmp_path / "honest")
    continued = f"{place}: continuing after round 2"
    assert (continued in said) == bool(keep)  # without the checkpoint of round 2 it is computed again
    assert read_records(place / "undone-1.jsonl") == before[2:]
    assert (place / "undone-1.safetensors").exists() == ended
    [note] = json.loads((place / "run.json").read_text())["rollbacks"]
    assert note == {
        "from": 6 if ended else 5,
        "to": 2,
        "records": "undone-1.jsonl",
        "changed": {"attack": ["sign-flip:2:from=3", None]},
    }


@pytest.mark.parametrize("keep", [0, 6])
def test_a_rule_from_there_on_is_in_the_configuration(keep: int, tmp_path: Path) -> None:
    """A run that had the configuration from its beginning is the same, whether rounds were computed again or not."""
    place = tmp_path / "run"
    run(config(**ATTACKED, keep=keep), place)
    assert roll_back(place, 2, robust="trimmed-mean:0.3").robust == "trimmed-mean:0.3:from=5"
    run(from_toml(place / "config.toml"), place)
    run(from_toml(place / "config.toml"), tmp_path / "again")
    assert result(place) == result(tmp_path / "again")
    assert roll_back(place, 1, attack=None).attack == "sign-flip:2:from=3:until=5"
    run(from_toml(place / "config.toml"), place)
    run(from_toml(place / "config.toml"), tmp_path / "third")
    assert result(place) == result(tmp_path / "third")
    assert len(json.loads((place / "run.json").read_text())["rollbacks"]) == 2
    assert len(read_records(place / "undone-2.jsonl")) == 1


@pytest.mark.parametrize(
    ("rounds", "changes", "why"),
    [
        (7, {}, "has run 6 rounds, so 7 cannot be taken back"),
        (0, {}, "rollback must be a whole number, 1 or more"),
        (2, {"robust": "meidan"}, "did you mean 'median'"),
        (2, {"attack": "labels:1"}, "attack was sign-flip:2:from=3 before round 5, and a run has one"),
        (4, {"attack": "labels:1"}, "labels are learned wrong in every round"),
    ],
)
def test_what_cannot_be_taken_back_changes_nothing(rounds: int, changes: Any, why: str, tmp_path: Path) -> None:
    run(config(**ATTACKED), tmp_path / "run")
    before = files(tmp_path / "run")
    with pytest.raises((ConfigError, RunError), match=why):
        roll_back(tmp_path / "run", rounds, **changes)
    assert files(tmp_path / "run") == before
    with pytest.raises(RunError, match="holds no run"):
        roll_back(tmp_path, 1)


def test_checkpoints_of_the_last_rounds_are_kept_and_no_more(tmp_path: Path) -> None:
    interrupted(config(**ATTACKED, keep=2), tmp_path / "run", 6)
    found = sorted(each.name for each in (tmp_path / "run" / "checkpoint").glob("manifest-*"))
    assert found == [f"manifest-{round:08}.json" for round in (3, 4, 5)]


def test_epsilon_of_undone_rounds_stays_spent(tmp_path: Path) -> None:
    private: dict[str, Any] = {"privacy": "central:clip=1:noise=3", "keep": 6, "attack": None}
    place = tmp_path / "run"
    run(config(**ATTACKED | private), place)
    paid = [each.epsilon for each in read_records(place / "records.jsonl")]
    roll_back(place, 2)
    run(from_toml(place / "config.toml"), place)
    records = read_records(place / "records.jsonl")
    assert [each.round for each in records] == [1, 2, 3, 4, 5, 6]
    assert records[3].epsilon == paid[3]
    assert records[4].epsilon is not None
    assert paid[5] is not None
    assert not math.isclose(records[4].epsilon, paid[5])
    assert records[4].epsilon > paid[5]  # the fifth round of the run is the seventh that was released


def test_from_python_and_with_objects_of_ones_own(tmp_path: Path) -> None:
    federation = make_federation([9] * 5)

    def train(out: Path, **options: Any) -> feddc.Result:
        return feddc.train(
            feddc.FedDC(),
            torch.nn.Linear(6, 3),
            federation,
            rounds=5,
            training=FAST,
            out=out,
            checkpoint="1",
            **options,
        )

    torch.manual_seed(0)
    state = torch.get_rng_state()
    honest = train(tmp_path / "honest")
    torch.set_rng_state(state)
    train(tmp_path / "run", attack="sign-flip:1:from=4")
    feddc.roll_back(tmp_path / "run", 2, attack=None)
    torch.set_rng_state(state)
    again = train(tmp_path / "run")
    assert all(torch.equal(a, b) for a, b in zip(honest.model.parameters(), again.model.parameters(), strict=True))
