"""Lost answers, lost disks, crashes and clients that answer nonsense, on a grid in memory."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

import feddc
from feddc.flower.server.coordinator import Coordinator
from tests.flower.fake import FakeGrid
from tests.flower.test_parity import coordinator, simulated

EVERYONE = {"participation": None}


def grid_of(run: Coordinator) -> FakeGrid:
    grid: Any = run.members.grid
    assert isinstance(grid, FakeGrid)
    return grid


def states(folder: Path, client: int) -> list[Path]:
    return sorted((folder / "clients").glob(f"*/client-{client}/*.safetensors"))


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    caplog.set_level(logging.INFO, "flwr")
    return lambda: "\n".join(record.getMessage() for record in caplog.records)


def without(client: int, round: int) -> np.ndarray:  # type: ignore[type-arg]
    mask = np.ones((4, 5))
    mask[round - 1, client] = 0
    return mask


def test_a_client_whose_answer_was_lost_does_not_run_ahead(tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, **EVERYONE)
    for record in run.run():
        grid_of(run).down = {2} if record.round == 1 else set()  # it trains in round 2, and the answer is lost
    _, simulation = simulated(feddc.FedDC(), participation=None, cohorts=without(2, round=2))
    torch.testing.assert_close(run.progress.server, simulation.server, rtol=1e-5, atol=1e-6)


def test_the_new_state_waits_for_the_servers_word(tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, keep=0, **EVERYONE)
    rounds = run.run()
    next(rounds)
    assert [path.name for path in states(tmp_path, 0)] == ["000001.safetensors"]
    next(rounds)
    assert [path.name for path in states(tmp_path, 0)] == ["000001.safetensors", "000002.safetensors"]
    next(rounds)
    assert [path.name for path in states(tmp_path, 0)] == ["000002.safetensors", "000003.safetensors"]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"half a fi")])
def test_a_client_that_lost_its_disk_begins_from_zero_and_is_named(
    damage: Callable[[Path], object], tmp_path: Path, said: Callable[[], str]
) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, **EVERYONE)
    for record in run.run():
        if record.round == 2:
            for path in states(tmp_path, 3):
                damage(path)
    assert "client 3 lost its state and began again from zero" in said()
    assert said().count("began again") == 1
    assert run.progress.round == 4


def test_methods_without_client_state_leave_nothing_on_disk(tmp_path: Path) -> None:
    list(coordinator(feddc.FedAvg(), tmp_path).run())
    assert not list((tmp_path / "clients").rglob("*.safetensors"))


def test_a_server_that_crashed_in_a_round_continues_as_if_it_had_not(tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path)
    rounds = run.run()
    next(rounds)
    next(rounds)
    run.checkpoint.close()
    crashed = coordinator(feddc.FedDC(), tmp_path)

    def crash(*_: object) -> Message:
        raise KeyboardInterrupt

    grid_of(crashed).tamper = crash
    with pytest.raises(KeyboardInterrupt):  # clients have trained for round 3, the server has not heard of it
        list(crashed.run())
    crashed.checkpoint.close()
    again = coordinator(feddc.FedDC(), tmp_path)
    assert [record.round for record in again.run()] == [3, 4]
    _, simulation = simulated(feddc.FedDC())
    torch.testing.assert_close(again.progress.server, simulation.server, rtol=1e-5, atol=1e-6)
    lines = (tmp_path / "server" / "feddc" / "server" / "records.jsonl").read_text().splitlines()
    assert len(lines) == 4


def test_a_finished_experiment_is_not_run_again(tmp_path: Path, said: Callable[[], str]) -> None:
    list(coordinator(feddc.FedDC(), tmp_path).run())
    assert list(coordinator(feddc.FedDC(), tmp_path).run()) == []
    assert "all 4 rounds were run before" in said()
    assert [record.round for record in coordinator(feddc.FedDC(), tmp_path, rounds=5).run()] == [5]


def test_another_setting_does_not_continue_an_experiment(tmp_path: Path) -> None:
    list(coordinator(feddc.FedDC(), tmp_path).run())
    sentence = "experiment 'feddc' was begun with seed=3, not 4: set it back to continue, or choose another"
    with pytest.raises(feddc.RunError, match=sentence):
        coordinator(feddc.FedDC(), tmp_path, seed=4)


def changed(reply: Message, arrays: dict[str, Any] | None = None, **config: Any) -> Message:
    old: Any = reply.content["arrays"]
    kept: Any = reply.content["config"]
    record = ArrayRecord({**old, **{name: Array(array) for name, array in (arrays or {}).items()}})
    content = RecordDict({"arrays": record, "config": ConfigRecord({**kept, **config})})
    return Message(content, reply_to=reply)


ONES = np.ones(83, np.float32)
NONSENSE = {
    "array 'delta' has NaN or Inf": lambda reply: changed(reply, {"delta": ONES * np.nan}),
    "array 'delta' is float32 (3,), not float32 (83,)": lambda reply: changed(reply, {"delta": ONES[:3]}),
    "array 'delta' is float64 (83,), not float32 (83,)": lambda reply: changed(reply, {"delta": np.ones(83)}),
    "the arrays are not ['delta']": lambda reply: changed(reply, {"extra": ONES}),
    "numbers above 1e+08": lambda reply: changed(reply, {"delta": ONES * 1e9}),
    "it is for another experiment than 'feddc-": lambda reply: changed(reply, experiment="other"),
    "it is for another round than 2": lambda reply: changed(reply, round=1),
    "it is for another client than 1": lambda reply: changed(reply, client=4),
    "the message must have the records": lambda reply: Message(RecordDict({}), reply_to=reply),
}


@pytest.mark.parametrize("sentence", NONSENSE)
def test_nonsense_is_refused_and_named_and_the_round_goes_on(
    sentence: str, tmp_path: Path, said: Callable[[], str]
) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, **EVERYONE)
    rounds = run.run()
    next(rounds)

    def tamper(client: int, reply: Message) -> Message:
        return NONSENSE[sentence](reply) if client == 1 else reply

    grid_of(run).tamper = tamper
    record = next(rounds)
    grid_of(run).tamper = lambda _, reply: reply
    list(rounds)
    assert record.participants == (0, 2, 3, 4)
    assert [(each.client, each.reason.startswith(sentence)) for each in record.rejected] == [(1, True)]
    assert f"the answer of client 1 in round 2 is not used: {sentence}" in said()
    _, simulation = simulated(feddc.FedDC(), participation=None, cohorts=without(1, round=2))
    torch.testing.assert_close(run.progress.server, simulation.server, rtol=1e-5, atol=1e-6)


def test_a_round_without_any_answer_ends_the_run(tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, **EVERYONE)
    rounds = run.run()
    next(rounds)
    grid_of(run).down = set(range(5))
    with pytest.raises(feddc.RunError, match=r"^round 2 has 0 answers that can be used"):
        next(rounds)
    run.checkpoint.close()
    assert [record.round for record in coordinator(feddc.FedDC(), tmp_path, **EVERYONE).run()] == [2, 3, 4]


def test_fewer_clients_than_asked_for(tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path)
    grid = grid_of(run)
    grid.nodes = {node: client for node, client in grid.nodes.items() if client not in (1, 3)}
    with pytest.raises(feddc.RunError, match=r"^3 of 5 clients were connected after 0 .*: client 1, 3 is missing"):
        list(run.run())


def test_a_round_goes_on_without_a_client_that_went_away_and_with_it_when_it_is_back(
    tmp_path: Path, said: Callable[[], str]
) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, **EVERYONE)
    grid, taken_part = grid_of(run), []
    everyone = dict(grid.nodes)
    for record in run.run():
        taken_part.append(record.participants)
        if record.round == 1:
            grid.nodes = {node: client for node, client in everyone.items() if client != 2}
        if record.round == 2:
            grid.nodes = {**grid.nodes, 99: 2}  # back, with another node id
    assert taken_part == [(0, 1, 2, 3, 4), (0, 1, 3, 4), (0, 1, 2, 3, 4), (0, 1, 2, 3, 4)]
    assert "round 2 continues without client 2, which is not connected" in said()
    _, simulation = simulated(feddc.FedDC(), participation=None, cohorts=without(2, round=2))
    torch.testing.assert_close(run.progress.server, simulation.server, rtol=1e-5, atol=1e-6)


def test_a_client_only_runs_what_it_has(tmp_path: Path) -> None:
    from feddc.flower.client.training import ClientSpec, TrainingClient
    from feddc.flower.packets import Packet

    spec = ClientSpec(
        "tests.flower.task:load_client", "tests.flower.task:make_model", (), (("partition-id", 0),), str(tmp_path)
    )
    client = TrainingClient(spec)
    with pytest.raises(feddc.ConfigError, match="unknown method 'Popen'"):
        client.answer(Packet({"ask": "train", "method": "Popen"}))
    with pytest.raises(feddc.ConfigError, match=r"the experiment's name '\.\./\.\.' cannot be used"):
        client.answer(Packet({"ask": "train", "method": "FedAvg", "experiment": "../..", "round": 1, "seen": 0}))
