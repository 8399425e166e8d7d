"""Keys, numbers and apps of sites, with real processes and TLS. Slow: pytest -m slow tests/flower

The tests use only commands that version 0.1 had too, and what is offered since then where it is offered, so that
scripts/test-old-federation can show that each of them fails there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from feddc.flower.new import write_app
from tests.flower.deployment import BIN, CERTIFICATES, NEEDS_KEYS, Deployment, free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    NEEDS_KEYS,
]


class Keyed:
    """Two sites with keys, of which one says at first that it is the other."""

    def __init__(self, deployment: Deployment, app: Path) -> None:
        self.deployment, self.app = deployment, app
        found = subprocess.run(
            ["feddc", "flower", "hash", str(app)], env=deployment.env, capture_output=True, text=True, check=False
        )
        self.pin = ["--app-hash", found.stdout.strip()] if found.returncode == 0 else []
        self.ids = [deployment.flwr("supernode", "register", f"node{i}.pub", "dep")["node-id"] for i in range(2)]
        offered = "\nnodes =" in (app / "pyproject.toml").read_text()
        self.bound = f'nodes="0={self.ids[0]} 1={self.ids[1]}"' if offered else ""

    def node(self, key: int, number: int, log: str) -> subprocess.Popen[bytes]:
        return self.deployment.start(
            log, "feddc", "flower", "node", *self.pin, "--superlink", self.deployment.address, "--host", "127.0.0.1",
            "--port", str(free_port()), "--root-certificates", "ca.crt", "--auth-supernode-private-key", f"node{key}",
            "--node-config", f"partition-id={number} num-partitions=2",
        )  # fmt: skip

    def connected(self, log: str, times: int = 1) -> None:
        self.deployment.until(lambda: self.deployment.log(log).count("SuperNode ID") >= times, 300, f"{log} is let in")


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    home = tmp_path_factory.mktemp("keyed") / "federation"
    home.mkdir()
    write_app(home / "hospitals")
    path = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-ec", CERTIFICATES], cwd=home, env=path, check=True, capture_output=True)
    with Deployment(home, tls=True) as deployment:
        security = ["--ssl-ca-certfile", "ca.crt", "--ssl-certfile", "server.pem", "--ssl-keyfile", "server.key"]
        deployment.superlink(*security, "--enable-supernode-auth")
        yield Keyed(deployment, home / "hospitals")


def test_a_site_that_was_killed_is_let_in_again_by_itself(keyed: Keyed) -> None:
    """The SuperLink still takes it for connected, and refuses it for about a minute."""
    first = keyed.node(0, 0, "node0")
    keyed.connected("node0")
    keyed.deployment.stop(first)
    second = keyed.node(0, 0, "node0")
    keyed.deployment.until(
        lambda: keyed.deployment.log("node0").count("SuperNode ID") == 2 or second.poll() is not None, 300, "it is back"
    )
    assert second.poll() is None, "it has given up"


def test_a_site_cannot_take_the_number_of_another(keyed: Keyed) -> None:
    pretender = keyed.node(1, 0, "pretender")
    keyed.connected("pretender")
    run = keyed.deployment.run(keyed.app, f'{keyed.bound} clients=1 rounds=1 epochs=1 experiment="one"')
    about = f"node {keyed.ids[1]}"
    keyed.deployment.until(lambda: about in keyed.deployment.logs_of(run), 300, "the server reports it")
    [line, *_] = [line for line in keyed.deployment.logs_of(run).splitlines() if about in line]
    keyed.deployment.finish(run)
    keyed.deployment.stop(pretender)
    assert "it says that it is client 0, but that number is not bound to this node" in line
    assert "takes the place" not in keyed.deployment.logs_of(run)


def test_a_site_runs_no_code_that_it_has_not_reviewed(keyed: Keyed, tmp_path: Path) -> None:
    thief, mark = tmp_path / "hospitals", tmp_path / "patients"
    shutil.copytree(keyed.app, thief, ignore=shutil.ignore_patterns("__pycache__"))
    client = thief / "hospitals" / "client.py"
    client.write_text(f"open({str(mark)!r}, 'w').write('taken')\n{client.read_text()}")
    run = keyed.deployment.run(thief, f'{keyed.bound} clients=1 rounds=1 epochs=1 wait=300 experiment="stolen"')

    def tried() -> bool:
        said = keyed.deployment.logs_of(run)
        return "is not used" in said or "round 1/1" in said

    keyed.deployment.until(tried, 300, "the site has been asked")
    keyed.deployment.flwr("stop", run, "dep")
    assert not mark.exists(), "code of the changed app has run at the site"
    assert "this site runs only the app with the hash" in keyed.deployment.log("node0")
