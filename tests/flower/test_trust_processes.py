"""Secure aggregation, robust rules and sites with demands of their own, with real processes. Slow: pytest -m slow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feddc.flower.new import write_app
from tests.flower.deployment import Deployment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

# What Flower's own process sends is looked at, and client 1 poisons its update in the experiment "poisoned".
WATCHED = """
import json
import numpy as np
from pathlib import Path
from flwr.app import Array, MessageType
from feddc.flower import client_app


def watch(message, context, call_next):
    reply = call_next(message, context)
    arrays, config = reply.content["arrays"], reply.content["config"]
    client = context.node_config["partition-id"]
    if message.metadata.message_type == MessageType.TRAIN:
        sent = {name: float(np.linalg.norm(array.numpy().astype(float))) for name, array in arrays.items()}
        with (Path(context.node_config["watch"]) / f"sent{client}.jsonl").open("a") as file:
            print(json.dumps({"arrays": sent, "config": {k: str(v) for k, v in config.items()}}), file=file)
        if client == 1 and str(config["experiment"]).startswith("poisoned"):
            arrays["delta"] = Array(arrays["delta"].numpy() * np.float32(-10))
    return reply


app = client_app("hospitals.task:load_client", "hospitals.task:make_model", mods=[watch])
"""


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    write_app(tmp_path / "hospitals")
    package = tmp_path / "hospitals" / "hospitals"
    (package / "client.py").write_text(WATCHED)
    task = package / "task.py"
    task.write_text(task.read_text().replace('split="dirichlet:0.3"', 'split="iid"'))
    with Deployment(tmp_path) as found:
        found.superlink()
        yield found


def sent_by(deployment: Deployment, client: int) -> list[dict[str, dict[str, Any]]]:
    return [json.loads(line) for line in (deployment.folder / f"sent{client}.jsonl").read_text().splitlines()]


def accuracy(deployment: Deployment, experiment: str) -> float:
    return float(deployment.records(experiment)[-1]["metrics"]["accuracy"])


def test_a_masked_run(deployment: Deployment) -> None:
    """What a site sends is masked bytes and nothing else, and the model learns."""
    app, watch = deployment.folder / "hospitals", f"watch='{deployment.folder}'"
    for client in range(3):
        deployment.supernode(client, config=watch, warm=True)
    deployment.stream(app, "experiment='masked' rounds=2 secure='masked' method='feddc:alpha=0.1'")
    assert [record["participants"] for record in deployment.records("masked")] == [[0, 1, 2]] * 2
    assert accuracy(deployment, "masked") > 0.8
    for sent in sent_by(deployment, 1):
        assert list(sent["arrays"]) == ["secure.message"]
        assert {"update", "drift"}.isdisjoint(sent["config"])


def test_a_poisoned_site_is_held_and_another_clips_its_own(deployment: Deployment) -> None:
    """One site of three sends −10 × its update, whose clients keep state; the third has a clip in its node's config."""
    app, watch = deployment.folder / "hospitals", f"watch='{deployment.folder}'"
    for client in range(3):
        deployment.supernode(client, config=watch + (" update-clip=1.5" if client == 2 else ""), warm=True)
    deployment.stream(app, "experiment='poisoned' rounds=6 robust='trimmed-mean:0.3' method='feddc:alpha=0.1'")
    assert [record["participants"] for record in deployment.records("poisoned")] == [[0, 1, 2]] * 6
    assert accuracy(deployment, "poisoned") > 0.8
    lengths = [sent["arrays"]["delta"] for sent in sent_by(deployment, 2)]
    assert max(lengths) == pytest.approx(1.5, rel=1e-3)
    assert max(sent["arrays"]["delta"] for sent in sent_by(deployment, 0)) > 1.6


def test_rounds_are_taken_back_from_server_and_sites(deployment: Deployment) -> None:
    """A run with rollback=2 goes back to round 1 at the server and at every site, and comes to the same again."""
    app, watch = deployment.folder / "hospitals", f"watch='{deployment.folder}'"
    for client in range(3):
        deployment.supernode(client, config=watch)
    settings = "experiment='back' rounds=3 method='feddc:alpha=0.1'"
    deployment.stream(app, settings)
    first = deployment.records("back")
    deployment.stream(app, f"{settings} rollback=2")
    again = deployment.records("back")
    assert [record["round"] for record in again] == [1, 2, 3]
    assert [record["metrics"] for record in again] == [record["metrics"] for record in first]
    rounds = [sent["config"]["round"] for sent in sent_by(deployment, 0)]
    assert rounds == ["1", "2", "3", "2", "3"]
    assert all(sent["config"]["lost"] == "False" for sent in sent_by(deployment, 0))
    undone = next(deployment.home.rglob("undone-1.jsonl")).read_text().splitlines()
    assert [json.loads(line)["round"] for line in undone] == [2, 3]
