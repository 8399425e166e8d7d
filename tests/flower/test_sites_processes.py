"""Slow sites, bad cells, absurd claims, two servers, joins and leaves: one federation of real processes for all of it.

What a site does is decided by files in a folder that its node's config names, so that the app, and with it every
process, stays the same from test to test. Slow: pytest -m slow tests/flower/test_sites_processes.py

The first four tests use only commands and functions that version 0.1 had too, so that scripts/test-old-federation can
show that each of them fails there.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator

import numpy as np
import pytest

from feddc.flower.new import write_app
from tests.flower.deployment import Deployment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SECRET = "MRN 4711 Jane Doe"
CLIENT = """
import time
from pathlib import Path
import numpy as np
from flwr.app import Array, MessageType
from feddc.flower import client_app


def obey(message, context, call_next):
    site, folder = context.node_config["partition-id"], Path(str(context.node_config["orders"]))
    train = message.metadata.message_type == MessageType.TRAIN
    deadline = time.monotonic() + 600
    while train and (folder / f"stop-{site}").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    reply = call_next(message, context)
    arrays, config = reply.content["arrays"], reply.content["config"]
    if not train and (folder / f"claim-{site}").exists() and "samples" in config:
        config["samples"] = int((folder / f"claim-{site}").read_text())
    if train and (folder / f"times-{site}").exists() and "delta" in arrays:
        factor = np.float32((folder / f"times-{site}").read_text())
        arrays["delta"] = Array(arrays["delta"].numpy() * factor)
    return reply


app = client_app("hospitals.task:load_client", "hospitals.task:make_model", mods=[obey])
"""
TASK = """
import csv
from pathlib import Path
import numpy as np
import torch
from torch import nn

SEEN = []


def load_client(node):
    site, folder = node["partition-id"], Path(str(node["orders"]))
    SEEN.append(folder / f"site-{site}.seen")
    try:
        from feddc.flower import read_table
    except ImportError:  # version 0.1: every site scales and numbers by itself
        rows = list(csv.reader((folder / f"site-{site}.csv").open()))[1:]
        x = np.array([[number(cell) for cell in row[:2]] for row in rows], np.float32)
        return (x - x.mean(0)) / x.std(0), np.unique([row[2] for row in rows], return_inverse=True)[1]
    return read_table(folder / f"site-{site}.csv")


def number(cell):
    try:
        return float(cell)
    except ValueError:
        raise ValueError(f"{cell!r} is not a number") from None


class Probe(nn.Linear):
    \"\"\"Notes the mean of the first column that it is given in training.\"\"\"

    def forward(self, x):
        if SEEN and self.training:
            with SEEN[0].open("a") as file:
                file.write(f"{float(x[:, 0].mean())}\\n")
        return super().forward(x)


def make_model():
    torch.manual_seed(0)
    return Probe(2, 3)
"""
SERVER = """
from feddc.flower import server_app

app = server_app("feddc", "hospitals.task:make_model")
"""
QUICK = "clients=3 epochs=1 lr=0.05 wait=300"


class Sites:
    """A federation, and the orders that its sites follow."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment, self.app = deployment, deployment.folder / "hospitals"
        self.orders = deployment.folder / "orders"
        self.orders.mkdir()
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, site: int) -> None:
        self.write_table(site)
        self.nodes[site] = self.deployment.supernode(site, 4, config=f"orders='{self.orders}'", warm=True)

    def write_table(self, site: int, cell: str | None = None) -> None:
        """Each site measures in another place; site 0 has never seen a square."""
        rng = np.random.default_rng(site)
        kinds = ["oval", "round"] if site == 0 else ["oval", "round", "square"]
        rows = [f"{1000 + 100 * site + 50 * a:.3f},{b:.3f},{rng.choice(kinds)}" for a, b in rng.normal(size=(40, 2))]
        rows += [] if cell is None else [f"{cell},0,oval"]
        (self.orders / f"site-{site}.csv").write_text("width,height,label\n" + "\n".join(rows) + "\n")

    def order(self, **orders: object) -> None:
        """stop_1=True, claim_1=7, times_1=-3; what is not named is no longer in force."""
        for path in self.orders.iterdir():
            if not path.suffix:
                path.unlink()
        for name, value in orders.items():
            (self.orders / name.replace("_", "-")).write_text(str(value))

    def told(self, experiment: str, sentence: str) -> str:
        """Wait until a run that cannot begin says why, and stop it; what it has said."""
        run = self.deployment.run(self.app, f'clients=3 rounds=1 epochs=1 wait=1200 experiment="{experiment}"')

        def is_over() -> bool:
            return sentence in self.deployment.logs_of(run) or self.deployment.status(run).startswith("finished")

        self.deployment.until(is_over, 900, f"the server says: {sentence}")
        said = self.deployment.logs_of(run)
        self.deployment.flwr("stop", run, "dep")
        return said

    def inputs(self, site: int) -> float:
        """The mean of the first column that a site has trained on."""
        return float(np.mean([float(line) for line in (self.orders / f"site-{site}.seen").read_text().split()]))

    def everything_at_the_server(self) -> bytes:
        """All that left the sites: the SuperLink's log and database, and what the server keeps."""
        folder = self.deployment.folder
        kept = [path for path in (self.deployment.home / "feddc").glob("*/server/*") if path.is_file()]
        return b"".join(path.read_bytes() for path in [*folder.glob("state.db*"), folder / "superlink.log", *kept])

    def participants(self, experiment: str) -> list[list[int]]:
        return [record["participants"] for record in self.deployment.records(experiment)]


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    folder = tmp_path_factory.mktemp("sites")
    write_app(folder / "hospitals")
    for name, source in {"client": CLIENT, "task": TASK, "server": SERVER}.items():
        (folder / "hospitals" / "hospitals" / f"{name}.py").write_text(source)
    with Deployment(folder) as deployment:
        deployment.superlink()
        found = Sites(deployment)
        for site in range(3):
            found.start(site)
        yield found


@pytest.fixture(autouse=True)
def nothing_ordered(sites: Sites) -> Iterator[None]:
    sites.order()
    yield
    sites.order()


def test_one_scale_and_one_list_of_classes(sites: Sites) -> None:
    log = sites.deployment.stream(sites.app, f'{QUICK} rounds=1 experiment="scale"')
    assert sites.participants("scale") == [[0, 1, 2]], log
    first, second, third = (sites.inputs(site) for site in range(3))
    assert second - first > 0.5, "1000 at one site and 1100 at another are the same number"
    assert third - second > 0.5

    from feddc.flower.samples import Agreed
    from feddc.storage import tensors

    _, about = tensors.read(sites.deployment.home / "feddc" / "scale" / "server" / "model.safetensors")
    agreed = Agreed.from_metadata(about)
    assert agreed.classes == ("oval", "round", "square")
    assert agreed.mean[0] == pytest.approx(1100, abs=15)  # of all sites together
    assert agreed.deviation[0] == pytest.approx(np.hypot(50, 100 * np.sqrt(2 / 3)), rel=0.15)
    [record] = sites.deployment.records("scale")
    assert [site["measures"]["samples"] for site in record["sites"]] == [8, 8, 8]


def test_a_slow_site_does_not_cost_the_answers_of_the_others(sites: Sites) -> None:
    sites.order(stop_0=True)
    run = sites.deployment.run(sites.app, f'{QUICK} rounds=1 answer-within=60 experiment="slow"')
    assert sites.deployment.finish(run) == "finished:completed"
    assert sites.participants("slow") == [[1, 2]]
    assert "client 0 has not answered in round 1" in sites.deployment.logs_of(run)


def test_the_text_of_an_error_stays_at_the_site(sites: Sites) -> None:
    sites.write_table(1, cell=SECRET)
    try:
        log = sites.told("cell", "is not used")
    finally:
        sites.write_table(1)
    assert "Jane" not in log
    assert "error 'data' at flower/samples.py:" in log
    assert b"Jane" not in sites.everything_at_the_server()
    site_log = (sites.deployment.home / "feddc" / "trainer-1.log").read_text()
    assert SECRET in site_log  # where the site's own people find it


def test_absurd_claims_and_updates_are_refused_by_name(sites: Sites) -> None:
    sites.order(claim_1=10**9)
    sentence = "client 1 says that it has 1000000000 samples; from 1 to 10000000 are possible here"
    assert sentence in sites.told("claim", sentence)
    assert sites.participants("claim") == []
    sites.order(times_1=9e5)
    log = sites.deployment.stream(sites.app, f'{QUICK} rounds=1 experiment="times"')
    assert sites.participants("times") == [[0, 2]], log
    [record] = sites.deployment.records("times")
    assert [(each["client"], "times the usual" in each["reason"]) for each in record["rejected"]] == [(1, True)]


def test_two_servers_cannot_have_one_experiment(sites: Sites) -> None:
    sites.order(stop_0=True)
    first = sites.deployment.run(sites.app, f'{QUICK} rounds=2 experiment="twice"')
    folder = sites.deployment.home / "feddc" / "twice" / "server"
    sites.deployment.until((folder / "config.toml").exists, 300, "the first run has the experiment")
    log = sites.deployment.stream(sites.app, f'{QUICK} rounds=2 experiment="twice"')
    assert "is in use by process" in log
    sites.order()
    assert sites.deployment.finish(first) == "finished:completed"
    assert [record["round"] for record in sites.deployment.records("twice")] == [1, 2]


def test_joins_and_leaves(sites: Sites) -> None:
    """The last test: a fourth site joins while a round is under way, and the third one is killed."""
    deployment = sites.deployment
    sites.order(stop_0=True)  # holds a round open until it is let go
    run = deployment.run(sites.app, f'{QUICK} rounds=40 leave-after=1 answer-within=300 experiment="members"')

    def after(rounds: int) -> None:
        sites.order()
        deployment.until(lambda: len(sites.participants("members")) >= rounds, 600, f"round {rounds} is over")

    sites.start(3)
    deployment.until(lambda: "SuperNode ID" in deployment.log("node3"), 120, "the fourth site is connected")
    after(1)
    deployment.until(lambda: [0, 1, 2, 3] in sites.participants("members"), 600, "it takes part")
    deployment.stop(sites.nodes[2])
    deployment.until(lambda: "client 2 was away for too long" in deployment.logs_of(run), 600, "it is dropped")
    last = len(sites.participants("members"))
    after(last + 1)
    assert sites.participants("members")[-1] == [0, 1, 3]
    members = [site["client"] for site in deployment.records("members")[-1]["sites"]]
    assert members == [0, 1, 3]
    assert "client 3 joins with" in deployment.logs_of(run)
    deployment.flwr("stop", run, "dep")


def test_the_sites_kept_a_record_of_all_that_they_sent(sites: Sites) -> None:
    lines = (sites.deployment.home / "feddc" / "sent-0.jsonl").read_text().splitlines()
    sent = [json.loads(line) for line in lines]
    assert {"query", "train", "evaluate"} <= {each["asked"] for each in sent}
    assert time.strftime("%Y-%m") in sent[-1]["time"]
