"""What a site lets out and what the server lets in: no text of data, no absurd counts, no number of somebody else's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

import feddc
from feddc.flower import client_app
from feddc.flower.failures import CODES, explain, report
from tests.flower import task
from tests.flower.fake import FakeGrid
from tests.flower.test_faults import EVERYONE, changed, grid_of
from tests.flower.test_parity import coordinator

SECRET = "MRN 4711 Jane Doe"


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    caplog.set_level(logging.INFO, "flwr")
    return lambda: "\n".join(record.getMessage() for record in caplog.records)


def load_csv_with_a_name(node: Mapping[str, Any]) -> Any:
    if node["partition-id"] == 3:
        from feddc.flower.samples import read_table

        path = Path(str(node["state-dir"])) / "patients.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"age,label\n54,0\n{SECRET},1\n")
        return read_table(path)
    return task.load_client(node)


def load_and_raise(node: Mapping[str, Any]) -> Any:
    if node["partition-id"] == 3:
        raise ValueError(SECRET)
    return task.load_client(node)


def leaking_mod(*_: Any) -> Message:
    raise KeyError(SECRET)


def everything_in(messages: list[Message]) -> str:
    return "".join(str(m.error) if m.has_error() else repr(dict(m.content["config"])) for m in messages)


@pytest.mark.parametrize(
    ("load", "mods", "told"),
    [
        (load_csv_with_a_name, [], {"failed": "data", "place": "flower/samples.py:"}),
        (load_and_raise, [], {"failed": "code", "place": "flower/client/training.py:"}),
        (task.load_client, [leaking_mod], {"failed": "code", "place": "flower/client/app.py:"}),
    ],
)
def test_the_text_of_an_exception_stays_at_the_site(
    load: Any, mods: Any, told: dict[str, str], tmp_path: Path, said: Callable[[], str]
) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, **EVERYONE)
    grid = FakeGrid(client_app(load, task.make_model, mods=mods), 5, tmp_path / "clients")
    replies: list[Message] = []

    def keep(client: int, reply: Message) -> Message:
        if client == 3:
            replies.append(reply)
        return reply

    grid.tamper, run.members.grid = keep, grid
    with pytest.raises(feddc.RunError, match="client 3 is missing" if not mods else "client 0, 1, 2, 3, 4 is missing"):
        list(run.run())
    [reply] = replies
    config = dict(reply.content["config"])
    assert set(config) == {"failed", "place"}
    assert config["failed"] == told["failed"]
    assert str(config["place"]).startswith(told["place"])
    assert SECRET not in everything_in(replies)
    on_the_server = [line for line in said().splitlines() if "is not used" in line]
    assert on_the_server
    assert not any(SECRET in line or "Jane" in line for line in on_the_server)


def test_what_came_over_the_network_is_not_repeated() -> None:
    assert explain("data", "data/own.py:12") == "error 'data' at data/own.py:12"
    assert explain(SECRET, f"{SECRET}.py:1") == "error 'code'"
    assert explain("data", "\n2026 forged line") == "error 'data'"
    for kind in CODES.values():
        error = kind(*(["m", 1] if kind is feddc.DivergedError else [SECRET]))  # type: ignore[arg-type]
        assert SECRET not in "".join(report(error).values())


def introduced(change: dict[str, Any]) -> Callable[[int, Message], Message]:
    def tamper(client: int, reply: Message) -> Message:
        config: Any = reply.content["config"]
        return changed(reply, **change) if client == 1 and "samples" in config else reply

    return tamper


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"samples": 10**9}, "client 1 says that it has 1000000000 samples; from 1 to 10000000 are possible here"),
        ({"samples": 0}, "client 1 says that it has 0 samples"),
        ({"samples": SECRET}, "client 1 says that it has None samples"),
        ({"parameters": 5}, "the model of client 1 has 5 parameters, the server's 83"),
        ({"client": 10**6}, "it says that it is client 1000000, but numbers go up to 99999"),
        ({"client": SECRET}, "it does not say which client it is"),
        ({"classes": ["x" * 101]}, "client 1 has class names that cannot be used"),
    ],
)
def test_an_absurd_introduction_is_refused(
    change: dict[str, Any], sentence: str, tmp_path: Path, said: Callable[[], str]
) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, **EVERYONE)
    grid_of(run).tamper = introduced(change)
    with pytest.raises(feddc.RunError, match="client 1 is missing"):
        list(run.run())
    assert f"is not used: {sentence}" in said()
    assert SECRET not in said()


@pytest.mark.parametrize("size", [9e7, 1e5])
def test_an_update_far_longer_than_the_others_is_refused(size: float, tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, rounds=1, **EVERYONE)
    ones = np.ones(83, np.float32)
    grid_of(run).tamper = lambda client, reply: (
        changed(reply, {"delta": ones * size}) if client == 1 and "round" in reply.content["config"] else reply
    )
    [record] = run.run()
    assert record.participants == (0, 2, 3, 4)
    [bad] = record.rejected
    assert bad.client == 1
    assert "more than 100 times the usual" in bad.reason


def test_a_number_belongs_to_the_node_that_it_is_bound_to(tmp_path: Path, said: Callable[[], str]) -> None:
    plain = coordinator(feddc.FedDC(), tmp_path / "plain", **EVERYONE)
    nodes = {client: node for node, client in grid_of(plain).nodes.items()}
    plain.checkpoint.close()
    text = " ".join(f"{client}={node}" for client, node in nodes.items())
    run = coordinator(feddc.FedDC(), tmp_path, nodes=text, rounds=2, **EVERYONE)
    grid = grid_of(run)
    for record in run.run():
        assert record.participants == (0, 1, 2, 3, 4)
        grid.nodes = {**grid.nodes, 99: 2}  # a stranger who says that it is client 2
    assert "node 99 is not used: it says that it is client 2, but that number is not bound to this node" in said()
    assert run.members.nodes[2] == nodes[2]


@pytest.mark.parametrize("text", ["0:12", "0=12 0=13", "0=12 1=12", "zero=1", "0="])
def test_nodes_as_they_are_written(text: str, tmp_path: Path) -> None:
    with pytest.raises(feddc.ConfigError, match=r"^nodes "):
        coordinator(feddc.FedDC(), tmp_path, nodes=text)


def test_two_servers_on_one_experiment(tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path)
    rounds = run.run()
    next(rounds)
    with pytest.raises(feddc.RunError, match="is in use by process"):
        coordinator(feddc.FedDC(), tmp_path)
    assert [record.round for record in rounds] == [2, 3, 4]
    assert list(coordinator(feddc.FedDC(), tmp_path).run()) == []


def test_a_simulation_that_meets_a_real_site_ends(tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, simulation=True)
    grid_of(run).tamper = lambda _, reply: changed(reply, simulated=False)
    with pytest.raises(feddc.RunError, match=r"was to be a simulation .* nothing was trained"):
        list(run.run())
    assert len(list(coordinator(feddc.FedDC(), tmp_path, simulation=True, rounds=1).run())) == 1
