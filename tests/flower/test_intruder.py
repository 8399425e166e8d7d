"""Somebody who has the CA's certificate and the documentation, and wants to get in: real processes, TLS, a gateway."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from feddc.flower.client.pins import app_hash
from feddc.flower.new import write_app
from tests.flower.deployment import BIN, CERTIFICATES, NEEDS_KEYS, Deployment, free_port
from tests.flower.gateway import gateway

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    NEEDS_KEYS,
]
THIEF = """
print("THE THIEF RUNS", flush=True)
raise RuntimeError(open("{secret}").readline())
"""


def test_with_the_ca_file_and_the_documentation_nobody_gets_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    home, app = tmp_path / "federation", tmp_path / "hospitals"
    home.mkdir()
    write_app(app)
    pin = app_hash(app)
    subprocess.run(["sh", "-ec", CERTIFICATES], cwd=home, check=True, capture_output=True)
    with Deployment(home, tls=True) as deployment:
        security = ["--ssl-ca-certfile", "ca.crt", "--ssl-certfile", "server.pem", "--ssl-keyfile", "server.key"]
        deployment.superlink(*security, "--enable-supernode-auth")
        with gateway(home, deployment.port) as port:
            ids = [deployment.flwr("supernode", "register", f"node{i}.pub", "dep")["node-id"] for i in range(2)]

            def node(client: int, key: str, name: str) -> subprocess.Popen[bytes]:
                tls = ["--root-certificates", "ca.crt", "--auth-supernode-private-key", key]
                return deployment.start(
                    name, "feddc", "flower", "node", "--app-hash", pin, "--superlink", f"127.0.0.1:{port}",
                    "--host", "127.0.0.1", "--port", str(free_port()), "--node-config",
                    f"partition-id={client} num-partitions=2", *(tls if key else tls[:2]),
                )  # fmt: skip

            # Anyone who can reach the gateway, with Flower's own command line.
            outside = Deployment(tmp_path / "outside", tls=True)
            shutil.copy(home / "ca.crt", outside.folder / "ca.crt")
            config = (outside.home / "config.toml").read_text()
            (outside.home / "config.toml").write_text(config.replace(outside.address, f"127.0.0.1:{port}"))
            for words in (
                ("supernode", "register", str(home / "stranger.pub"), "dep"),
                ("supernode", "ls", "dep"),
                ("ls", "dep"),
                ("run", str(app), "dep"),
                ("stop", "1234", "dep"),
            ):
                done = subprocess.run(["flwr", *words], env=outside.env, capture_output=True, text=True, check=False)
                assert done.returncode != 0, words
                assert "Successfully" not in done.stdout, words
            assert deployment.flwr("ls", "dep")["runs"] == []

            # Sites that are not registered, or that are another site.
            strangers = [node(0, "", "no-key"), node(0, "stranger", "stranger")]
            node(0, "node0", "node0")
            bound = f'nodes="0={ids[0]} 1={ids[1]}" clients=2 epochs=1 answer-within=120'
            strangers.append(node(0, "node1", "pretender"))  # the key of site 1, the number of site 0
            log = deployment.stream(app, f'{bound} rounds=1 wait=75 experiment="pretended"')
            assert "it says that it is client 0, but that number is not bound to this node" in log
            assert deployment.records("pretended") == []
            for name in ("no-key", "stranger"):
                assert "SuperNode ID" not in deployment.log(name), name
            assert "has not let this SuperNode in" in deployment.log("stranger")
            for process in strangers:
                deployment.stop(process)

            # The operator's own account is taken: an app that reads a file. No site runs it.
            secret = tmp_path / "patients.csv"
            secret.write_text("name,age\nJane Doe,54\n")
            thief = tmp_path / "thief" / "hospitals"
            shutil.copytree(app, thief, ignore=shutil.ignore_patterns("__pycache__"))
            client = thief / "hospitals" / "client.py"
            client.write_text(THIEF.format(secret=secret) + client.read_text())
            node(
                1, "node1", "node1"
            )  # refused for a while, as its former life is still listed; it tries until it is let in
            log = deployment.stream(thief, f'{bound} rounds=1 wait=60 experiment="stolen"')
            assert "Jane" not in log
            assert "THE THIEF RUNS" not in deployment.log("node0") + deployment.log("node1")
            assert f"this site runs only the app with the hash {pin}" in deployment.log("node0")

            # And the federation works, through the gateway.
            log = deployment.stream(app, f'{bound} rounds=2 wait=120 experiment="honest"')
            assert [record["participants"] for record in deployment.records("honest")] == [[0, 1]] * 2, log
