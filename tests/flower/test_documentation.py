"""The commands of docs/federation.md, run as they stand there except the ports, as real processes on loopback."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import feddc
from tests.flower.deployment import BIN, NEEDS_KEYS, Deployment, descendants, free_port, gone_within

DOCUMENT = (Path(__file__).parents[2] / "docs" / "federation.md").read_text()
HEARTS = Path(os.environ.get("FEDDC_TEST_DATA", Path(__file__).parents[3] / "shared" / "data")) / "heart-disease"
FIRST, SECOND = DOCUMENT.split("## TLS and keys")


class Reader:
    """Does what the document says: servers and nodes are left running, everything else runs to its end."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.ports = {"8000": str(deployment.port)} | {port: str(free_port()) for port in ("9094", "9095", "9096")}
        self.nodes: list[subprocess.Popen[bytes]] = []
        self.output = ""

    def follow(self, text: str) -> Iterator[str]:
        """Run the commands, and stop after each."""
        for kind, block in re.findall(r"```(sh|toml)\n(.*?)```", text, re.DOTALL):
            for port, free in self.ports.items():
                block = block.replace(port, free)
            block = block.replace("/srv/federation", str(self.deployment.folder))
            if kind == "toml":
                (self.deployment.home / "config.toml").write_text(block)
                continue
            for line in block.splitlines():
                if not line.startswith("export "):  # the deployment has these already
                    self.run(line)
                    yield line

    def run(self, line: str) -> None:
        name, *_ = words = shlex.split(line)
        if name == "flower-superlink":
            self.deployment.start("superlink", *words)
            self.deployment.until(self.deployment.listening, 300, "the SuperLink listens")
        elif name == "flower-supernode" or words[:3] == ["feddc", "flower", "node"]:
            self.nodes.append(self.deployment.start(f"node{len(self.nodes)}", *words))
        else:
            done = subprocess.run(
                words, env=self.deployment.env, cwd=self.deployment.folder, capture_output=True, text=True, timeout=280
            )
            self.output += done.stdout + done.stderr
            assert done.returncode == 0, self.output


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with Deployment(tmp_path) as deployment:
        yield Reader(deployment)


def expected(rounds: int) -> dict[str, torch.Tensor]:
    """The model of the simulator for the settings of a new app."""
    federation = feddc.load("digits", clients=3, split="dirichlet:0.3")
    model = feddc.make_model("fcn:100", federation.shape, federation.classes)
    training = feddc.LocalTraining(batch_size=10)
    options: dict[str, Any] = {"rounds": rounds, "participation": 1.0, "training": training, "executor": "in-process"}
    return feddc.train(feddc.FedDC(alpha=0.1), model, federation, **options).model.state_dict()


def check_model(deployment: Deployment, experiment: str, rounds: int) -> None:
    found = load_file(deployment.home / "feddc" / experiment / "server" / "model.safetensors")
    for name, tensor in expected(rounds).items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-5)
    assert [record["round"] for record in deployment.records(experiment)] == [*range(1, rounds + 1)]


@pytest.mark.timeout(600)
def test_three_hospitals(reader: Reader) -> None:
    """Also: Flower equals the simulator, and a second run continues after the SuperLink was killed."""
    deployment = reader.deployment
    for line in reader.follow(FIRST):
        if "rounds=2" in line:
            check_model(deployment, "hospitals", 2)
            superlink = deployment.processes[0]
            deployment.stop(superlink)
            deployment.start("superlink", *superlink.args)  # type: ignore[misc]
            deployment.until(deployment.listening, 300, "the SuperLink listens again")
    check_model(deployment, "hospitals", 3)
    trainers = deployment.trainers()
    assert len(trainers) == 3
    started = [pid for node in reader.nodes for pid in descendants(node.pid)]
    assert len(started) >= 6  # an executor and a warm process each
    for node in reader.nodes:
        node.kill()
        node.wait()
    assert gone_within(10, started + trainers), "all that a node started ends with it"


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.skipif(not HEARTS.is_dir(), reason="needs the UCI heart-disease files, in FEDDC_TEST_DATA/heart-disease")
def test_four_hospitals_with_tables_of_their_own(tmp_path: Path) -> None:
    """To the last round, with every hospital's own score in the records and in the report."""
    [commands] = re.findall(r"```bash\n(.*?)```", FIRST, re.DOTALL)
    for path in HEARTS.glob("processed.*.data"):
        shutil.copy(path, tmp_path)
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(Path(feddc.__file__).parents[1])}
    done = subprocess.run(
        ["bash", "-e", "-c", commands], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=2300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [records] = (tmp_path / "federation" / "home" / "feddc").glob("*/server/records.jsonl")
    rounds = [json.loads(line) for line in records.read_text().splitlines()]
    [wanted] = re.findall(r"clients=4 rounds=(\d+)", commands)
    assert [record["participants"] for record in rounds] == [[0, 1, 2, 3]] * int(wanted)
    scores = [site["measures"]["accuracy"] for site in rounds[-1]["sites"]]
    assert len(scores) == 4
    assert rounds[-1]["metrics"]["accuracy"] > 0.6
    [page] = tmp_path.rglob("report.html")
    assert "Sites: " in page.read_text()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@NEEDS_KEYS
def test_tls_and_keys(reader: Reader) -> None:
    """Also: the four SuperNodes that must be refused are."""
    deployment = reader.deployment
    reader.run("feddc flower new hospitals")
    for line in reader.follow(SECOND):
        if line.startswith("flwr run"):
            check_model(deployment, "secure", 2)
    reader.run('ssh-keygen -q -t ecdsa -b 384 -N "" -f stranger')
    reader.run('openssl req -x509 -newkey rsa:2048 -nodes -subj "/CN=other" -keyout other.key -out other.crt')
    tls, key = "--root-certificates ca.crt", "--auth-supernode-private-key"
    refused = {  # the options of a SuperNode, and what it says when it ends
        "no-key": (tls, "All SuperNodes must be registered via the CLI"),
        "unregistered-key": (f"{tls} {key} stranger", "Failed to activate SuperNode"),
        "plaintext": ("--insecure", "Failed to initialize the connection to the SuperLink"),
        "wrong-authority": (f"--root-certificates other.crt {key} node0", "CERTIFICATE_VERIFY_FAILED"),
    }
    for node in reader.nodes:
        deployment.stop(node)
    intruders = {}
    for name, (security, _) in refused.items():
        words = f"--superlink {deployment.address} --port {free_port()} --max-retries 1 {security}".split()
        config = ("--node-config", "partition-id=0 num-partitions=3")
        intruders[name] = deployment.start(name, "flower-supernode", *words, *config)
    for name, (_, reason) in refused.items():
        assert intruders[name].wait(timeout=60) == 1, name
        assert reason in deployment.log(name)
        assert "SuperNode ID" not in deployment.log(name), name
    assert "No SuperNode found with the given public key" in deployment.log("superlink")  # the unregistered one
