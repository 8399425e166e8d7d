"""Faults and intruders with real processes. Slow: pytest -m slow tests/flower"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from feddc.flower.new import write_app
from tests.flower.deployment import Deployment, descendants, gone_within

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

# Client 1 answers nonsense, of another kind in each round.
EVIL = """
import numpy as np
from flwr.app import Array, MessageType
from feddc.flower import client_app


def evil(message, context, call_next):
    reply = call_next(message, context)
    if message.metadata.message_type == MessageType.TRAIN and context.node_config["partition-id"] == 1:
        arrays, config = reply.content["arrays"], reply.content["config"]
        delta = arrays["delta"].numpy()
        kind = config["round"]
        if kind == 1:
            arrays["delta"] = Array(delta * np.float32("nan"))
        if kind == 2:
            arrays["delta"] = Array(delta[:5])
        if kind == 3:
            config["experiment"] = "another"
        if kind == 4:
            config["round"] = 2
    return reply


app = client_app("hospitals.task:load_client", "hospitals.task:make_model", mods=[evil])
"""
# Client 1 takes a minute over round 2, so that it can be killed in the middle.
PATIENT = """
import time
import hospitals.task
from feddc.flower import client_app


def slow(message, context, call_next):
    if message.metadata.group_id == "2" and context.node_config["partition-id"] == 1:
        print("client 1 is at work", flush=True)
        time.sleep(60)
    return call_next(message, context)


app = client_app("hospitals.task:load_client", "hospitals.task:make_model", mods=[slow])
"""


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    write_app(tmp_path / "hospitals")
    with Deployment(tmp_path) as deployment:
        deployment.superlink()
        yield deployment


def client_of(deployment: Deployment, source: str) -> Path:
    app = deployment.folder / "hospitals"
    (app / "hospitals" / "client.py").write_text(source)
    return app


def test_nonsense_is_refused_and_the_rounds_go_on(deployment: Deployment) -> None:
    for client in range(3):
        deployment.supernode(client)
    log = deployment.stream(client_of(deployment, EVIL), "rounds=5 epochs=1")
    reasons = ("has NaN or Inf", "is float32 (5,)", "for another experiment than", "for another round than 4")
    for round, reason in enumerate(reasons, 1):
        [line] = [line for line in log.splitlines() if f"client 1 in round {round} is not used" in line]
        assert reason in line
    taken_part = [record["participants"] for record in deployment.records("hospitals")]
    assert taken_part == [[0, 2]] * 4 + [[0, 1, 2]]


def test_a_supernode_killed_in_a_round_comes_back(deployment: Deployment) -> None:
    nodes = [deployment.supernode(client, warm=client == 1) for client in range(3)]
    run = deployment.run(client_of(deployment, PATIENT), "rounds=4 epochs=1")
    deployment.until(lambda: "client 1 is at work" in deployment.log("node1"), 200, "client 1 trains in round 2")
    before, started = deployment.trainers(), descendants(nodes[1].pid)
    assert len(started) == 5  # the SuperNode, its executor, a launcher, the warm process and its fork
    nodes[1].kill()
    nodes[1].wait()
    deployment.until(lambda: len(deployment.trainers()) == len(before) - 1, 10, "its trainer ends")
    assert gone_within(5, started)
    deployment.supernode(1, warm=True)
    assert deployment.finish(run, 400) == "finished:completed"
    taken_part = [record["participants"] for record in deployment.records("hospitals")]
    assert taken_part[0] == [0, 1, 2]
    assert taken_part[1] == [0, 2]
    assert taken_part[3] == [0, 1, 2]
    assert "began again from zero" not in deployment.logs_of(run)  # its state was on disk


def test_fewer_clients_than_asked_for(deployment: Deployment) -> None:
    for client in range(2):
        deployment.supernode(client)
    log = deployment.stream(deployment.folder / "hospitals", "wait=20")
    assert "2 of 3 clients were connected after 20 seconds" in log
    assert "client 2 is missing" in log
    assert deployment.records("hospitals") == []


def test_a_simulation_that_is_sent_to_real_sites_ends_before_it_trains(deployment: Deployment) -> None:
    for client in range(3):
        deployment.supernode(client, warm=True)
    log = deployment.stream(deployment.folder / "hospitals", "simulation=true rounds=1")
    assert "was to be a simulation" in log
    assert "nothing was trained" in log
    assert deployment.records("hospitals") == []


def test_the_app_runs_in_flowers_own_simulation(tmp_path: Path) -> None:
    write_app(tmp_path / "hospitals")
    with Deployment(tmp_path) as deployment:
        deployment.superlink("--simulation")
        log = deployment.stream(
            tmp_path / "hospitals", "rounds=2", "--federation-config", "num-supernodes=3 client-resources-num-cpus=1"
        )
        assert [record["participants"] for record in deployment.records("hospitals")] == [[0, 1, 2]] * 2, log
