"""Secure aggregation, robust rules and sites with demands of their own, with real processes. Slow: pytest -m slow."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from feddc.flower.new import write_app
from tests.flower.deployment import Deployment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# What Flower's own process sends is looked at, and client 1 poisons its update in the run called "poisoned".
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
    with Deployment(tmp_path) as found:
        found.superlink()
        yield found


def test_three_sites(deployment: Deployment) -> None:
    app = deployment.folder / "hospitals"
    write_app(app)
    (app / "hospitals" / "client.py").write_text(WATCHED)
    watch = deployment.folder
    nodes = [
        deployment.supernode(client, config=f"watch='{watch}' " + ("update-clip=0.5" if client == 2 else ""))
        for client in range(3)
    ]
    # Secure aggregation: what a client sends to the server is masked bytes and nothing else, and the model learns.
    deployment.stream(app, "experiment='masked' rounds=4 secure='masked' method='feddc:alpha=0.1'")
    records = deployment.records("masked")
    assert [record["participants"] for record in records] == [[0, 1, 2]] * 4
    assert records[-1]["metrics"]["accuracy"] > 0.8
    sent = (watch / "sent0.jsonl").read_text()
    assert '"secure.message"' in sent
    assert "delta" not in sent
    assert "update" not in sent

    # One site of three sends −10 × its update, with and without a rule; the third site clips its own whatever is asked.
    plain, held = "method='feddc:alpha=0.1' rounds=6", "method='feddc:alpha=0.1' rounds=6 robust='trimmed-mean:0.3'"
    deployment.stream(app, f"experiment='poisoned' {plain}")
    deployment.stream(app, f"experiment='poisoned-held' {held}")
    attacked, defended = (deployment.records(each)[-1]["metrics"]["accuracy"] for each in ("poisoned", "poisoned-held"))
    assert attacked < 0.6
    assert defended > 0.8
    import json

    lengths = [
        json.loads(line)["arrays"].get("delta", 0.0) for line in (watch / "sent2.jsonl").read_text().splitlines()
    ]
    assert max(lengths) == pytest.approx(0.5, rel=1e-3)

    # A site is killed in the middle of a masked run: the sum is that of the other two.
    run = deployment.run(app, "experiment='lossy' rounds=4 secure='masked' answer-within=30 method='feddc:alpha=0.1'")
    deployment.until(lambda: len(deployment.records("lossy")) >= 1, 120, "round 1 is done")
    os.killpg(nodes[0].pid, signal.SIGKILL)
    deployment.finish(run, 400)
    assert any(record["participants"] == [1, 2] for record in deployment.records("lossy"))
