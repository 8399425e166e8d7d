"""Rounds taken back on Flower: server and sites as if they had never been, or a sentence on why it cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, Message

import feddc
from feddc.errors import RunError
from feddc.flower.server.coordinator import Coordinator
from feddc.study.rundir import read_records
from tests.flower.test_parity import coordinator
from tests.flower.test_trust import STATEFUL, agrees, client_states


def poisoned(client: int, reply: Message) -> Message:
    """From round 4 on client 1 sends −10 × its update."""
    if client == 1 and "delta" in reply.content["arrays"] and int(reply.content["config"]["round"]) >= 4:
        arrays = {name: array.numpy() for name, array in reply.content["arrays"].items()}
        arrays["delta"] = np.asarray(-10 * arrays["delta"])
        reply.content["arrays"] = ArrayRecord({name: Array(each) for name, each in arrays.items()})
    return reply


def attacked(algorithm: Any, folder: Path, rounds: int = 6, **changes: Any) -> Coordinator:
    run = coordinator(algorithm, folder, rounds=rounds, **changes)
    run.members.grid.tamper = poisoned  # type: ignore[attr-defined]
    list(run.run())
    return run


@pytest.mark.parametrize(
    ("algorithm", "robust"),
    [(feddc.FedAvg(), None), *((each, None) for each in STATEFUL), (STATEFUL[-1], "trimmed-mean:0.2")],
    ids=str,
)
def test_rounds_taken_back_leave_no_trace(algorithm: Any, robust: str | None, tmp_path: Path) -> None:
    """Half of the clients a round, so that some have to go back further than others."""
    honest = coordinator(algorithm, tmp_path / "honest", rounds=7, robust=robust)
    list(honest.run())
    before = attacked(algorithm, tmp_path / "run", robust=robust)
    undone = read_records(before.checkpoint.folder / "records.jsonl")[3:]
    again = coordinator(algorithm, tmp_path / "run", rounds=7, rollback=3, robust=robust)
    records = list(again.run())
    assert [each.round for each in records] == [4, 5, 6, 7]
    assert all(torch.equal(a, b) for a, b in zip(again.progress.server[:1], honest.progress.server[:1], strict=True))
    assert again.progress.seen == honest.progress.seen
    if not robust:  # else the states of those asked last wait for the next question
        for mine, theirs in zip(
            client_states(again, tmp_path / "run"), client_states(honest, tmp_path / "honest"), strict=True
        ):
            assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    assert read_records(again.checkpoint.folder / "undone-1.jsonl") == undone
    assert again.progress.undone == 3


def test_a_rule_may_be_added_when_rounds_are_taken_back(tmp_path: Path) -> None:
    attacked(feddc.FedDC(alpha=0.1), tmp_path)
    with pytest.raises(RunError, match="was begun with robust=None, not median"):
        coordinator(feddc.FedDC(alpha=0.1), tmp_path, rounds=8, robust="median")
    run = coordinator(feddc.FedDC(alpha=0.1), tmp_path, rounds=8, robust="median", rollback=3)
    assert [each.round for each in run.run()] == [4, 5, 6, 7, 8]
    with pytest.raises(RunError, match="was begun with robust=median, not None"):
        coordinator(feddc.FedDC(alpha=0.1), tmp_path, rounds=8)


@pytest.mark.parametrize("secure", [None, "masked:bits=16:range=2"])
def test_taking_back_twice_and_the_sums_still_agree(secure: str | None, tmp_path: Path) -> None:
    algorithm, options = feddc.FedDC(alpha=0.1), {"participation": None, "secure": secure}
    attacked(algorithm, tmp_path, rounds=5, **options)
    for rounds, back in ((6, 2), (7, 3)):
        run = coordinator(algorithm, tmp_path, rounds=rounds, rollback=back, **options)
        list(run.run())
    agrees(run, tmp_path)
    assert run.progress.undone == 5
    assert (run.checkpoint.folder / "undone-2.jsonl").exists()


def states_on_disk(folder: Path, client: int) -> list[Path]:
    return sorted((folder / "clients").glob(f"*/client-{client}/*.safetensors"))


def test_what_cannot_be_taken_back_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    everyone: dict[str, Any] = {"participation": None, "keep": 2}
    attacked(feddc.FedDC(), tmp_path, **everyone)

    def refused(match: str, **changes: Any) -> None:
        run = coordinator(feddc.FedDC(), tmp_path, rounds=8, **everyone | changes)
        state = (run.checkpoint.folder / "state.safetensors").read_bytes()
        with pytest.raises(RunError, match=match):
            list(run.run())
        assert (run.checkpoint.folder / "state.safetensors").read_bytes() == state
        assert len(read_records(run.checkpoint.folder / "records.jsonl")) == 6

    refused("6 rounds were run, so 6 cannot be taken back", rollback=6)
    refused("the server keeps its state of 4, 5, 6, not of round 3", rollback=3)
    assert [each.name for each in states_on_disk(tmp_path, 3)] == [f"{n:06d}.safetensors" for n in (3, 4, 5, 6)]
    states_on_disk(tmp_path, 3)[1].unlink()
    refused("client 3 has not kept its state of round 4", rollback=2)
    list(coordinator(feddc.FedDC(), tmp_path, rounds=7, **everyone | {"rollback": 1}).run())


def test_a_method_without_state_needs_nobody_to_go_back(tmp_path: Path) -> None:
    attacked(feddc.FedAvg(), tmp_path)
    run = coordinator(feddc.FedAvg(), tmp_path, rounds=6, rollback=2)
    assert [each.round for each in run.run()] == [5, 6]


def test_epsilon_of_undone_rounds_stays_spent(tmp_path: Path) -> None:
    private: dict[str, Any] = {"privacy": "local:clip=0.1:noise=5", "participation": None}
    before = coordinator(feddc.FedAvg(), tmp_path, rounds=4, **private)
    spent = [each.epsilon for each in before.run()]
    again = [each.epsilon for each in coordinator(feddc.FedAvg(), tmp_path, rounds=4, rollback=2, **private).run()]
    assert spent[3] is not None
    assert again[0] is not None
    assert again[0] > spent[3]
