"""Somebody with the address, the CA's certificate and Flower's source, at the gateway: real processes, raw requests."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    RegisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.date import now
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message

from feddc.flower.new import write_app
from tests.flower.deployment import CERTIFICATES, Deployment, free_port
from tests.flower.gateway import NGINX, gateway

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not NGINX or not shutil.which("openssl"), reason="needs nginx and openssl"),
]
WAYS_ROUND = [
    "/v1/control/list-runs",
    "/v1/runtime/get-nodes",
    "//v1/control/list-runs",
    "/V1/control/list-runs",
    "/v1/fleet/../control/list-runs",
    "/v1/fleet/%2e%2e/control/list-runs",
    "/v1/fleet/..%2fcontrol/list-runs",
    "/v1/fleet/%252e%252e/control/list-runs",
    "/v1/fleet/..;/control/list-runs",
    "/v1/fleet/\\..\\control/list-runs",
    "/v1/fleet/x#/../../control/list-runs",
    "/v1/control/list-runs?/../../fleet/",
    "/v1/control/list-runs/../../fleet/",
    "/v1/control/list-runs;/../../fleet/pull-messages",
    "/v1/control/list-runs%2f..%2f..%2ffleet%2fpull-messages",
    "http://localhost/v1/control/list-runs",
    "/docs",
    "/openapi.json",
]
ENDPOINTS = [
    "register-node",
    "activate-node",
    "deactivate-node",
    "unregister-node",
    "send-node-heartbeat",
    "pull-messages",
    "push-messages",
    "get-run",
    "get-fab",
    "push-object",
    "pull-object",
    "confirm-message-received",
]


class Attacker:
    """Raw requests to the gateway."""

    def __init__(self, port: int, certificate: Path) -> None:
        self.port, self._trust = port, ssl.create_default_context(cafile=str(certificate))

    def connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        return self._trust.wrap_socket(plain, server_hostname="localhost")

    def ask(self, path: str, body: bytes = b"", headers: str = "", method: str = "POST") -> int:
        """The status of the answer."""
        with self.connect() as connection:
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/protobuf\r\n{headers}"
            connection.sendall(f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            return int(connection.recv(100).split()[1])


class Under:
    """A SuperLink behind its gateway, and what an attacker knows of it."""

    def __init__(self, deployment: Deployment, attacker: Attacker, superlink: int, nodes: list[int]) -> None:
        self.deployment, self.attacker, self.superlink, self.nodes = deployment, attacker, superlink, nodes

    def memory(self) -> float:
        """MB that the SuperLink has in memory."""
        pages = int(Path(f"/proc/{self.superlink}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / 1e6


@pytest.fixture(scope="module")
def under(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Under]:
    home = tmp_path_factory.mktemp("break-in") / "federation"
    home.mkdir()
    subprocess.run(["sh", "-ec", CERTIFICATES], cwd=home, check=True, capture_output=True)
    with Deployment(home, tls=True) as deployment:
        security = ["--ssl-ca-certfile", "ca.crt", "--ssl-certfile", "server.pem", "--ssl-keyfile", "server.key"]
        superlink = deployment.superlink(*security, "--enable-supernode-auth")
        nodes = [int(deployment.flwr("supernode", "register", f"node{i}.pub", "dep")["node-id"]) for i in range(2)]
        with gateway(home, deployment.port) as port:
            yield Under(deployment, Attacker(port, home / "ca.crt"), superlink.pid, nodes)


@pytest.mark.parametrize("path", WAYS_ROUND)
def test_no_way_of_writing_a_path_reaches_the_operators_api(under: Under, path: str) -> None:
    assert under.attacker.ask(path) in (403, 404)


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Transfer-Encoding: chunked\r\n", 400),
        ("Transfer-Encoding : chunked\r\n", 400),
        ("Transfer-Encoding: xchunked\r\n", 501),
        ("X-Original-URL: /v1/control/list-runs\r\n", 401),
        ("Upgrade: h2c\r\n", 401),
    ],
)
def test_a_second_request_inside_the_first_is_not_passed_on(under: Under, header: str, status: int) -> None:
    hidden = b"0\r\n\r\nPOST /v1/control/list-runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    body = hidden if header.startswith("Transfer") else b""
    assert under.attacker.ask("/v1/fleet/pull-messages", body, header) == status


@pytest.mark.parametrize("name", ENDPOINTS)
def test_nothing_is_answered_without_a_key(under: Under, name: str) -> None:
    ask = under.attacker.ask
    assert ask(f"/v1/fleet/{name}") == 401
    assert ask(f"/v1/fleet/{name}", b"\xff" * 100) == 400  # not a message at all
    assert ask(f"/v1/fleet/{name}", b"\x0a\x7f" * 5000) == 400  # one in another, and so on
    assert ask(f"/v1/fleet/{name}", method="GET") == 405


def test_a_key_that_nobody_registered_is_no_key(under: Under) -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    public, stamp = public_key_to_bytes(key.public_key()), now().isoformat()
    headers = signed(key, stamp)
    node = Node(node_id=under.nodes[0])
    for path, request, status in (
        ("register-node", RegisterNodeFleetRequest(public_key=public), 412),
        ("activate-node", ActivateNodeRequest(public_key=public, heartbeat_interval=30), 412),
        ("pull-messages", PullMessagesRequest(node=node), 401),
        ("deactivate-node", DeactivateNodeRequest(node_id=node.node_id), 401),
    ):
        assert under.attacker.ask(f"/v1/fleet/{path}", request.SerializeToString(), headers) == status, path


def signed(key: ec.EllipticCurvePrivateKey, stamp: str) -> str:
    """The headers with which a node says who it is."""
    public, signature = public_key_to_bytes(key.public_key()), sign_message(key, stamp.encode())
    return (
        f"flwr-public-key: {b64encode(public).decode()}\r\nflwr-timestamp: {stamp}\r\n"
        f"flwr-signature: {b64encode(signature).decode()}\r\n"
    )


def test_headers_of_a_request_are_good_for_that_node_and_for_five_minutes(under: Under) -> None:
    """They sign the time alone. So whoever reads them, inside TLS, can be that node for so long, and no longer."""
    key = serialization.load_ssh_private_key((under.deployment.folder / "node0").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    captured = signed(key, now().isoformat())
    own, other = (SendNodeHeartbeatRequest(node=Node(node_id=node), heartbeat_interval=30) for node in under.nodes)
    heartbeat = "/v1/fleet/send-node-heartbeat"
    for _ in range(2):
        assert under.attacker.ask(heartbeat, own.SerializeToString(), captured) == 200
    assert under.attacker.ask(heartbeat, other.SerializeToString(), captured) == 401
    old = signed(key, (now() - timedelta(seconds=310)).isoformat())
    assert under.attacker.ask(heartbeat, own.SerializeToString(), old) == 401


FLOOD = """
import socket, ssl, sys, threading, time
port, certificate = int(sys.argv[1]), sys.argv[2]
trust = ssl.create_default_context(cafile=certificate)
request = (b"POST /v1/fleet/pull-messages HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/protobuf\\r\\n"
           b"Content-Length: 0\\r\\n\\r\\n")
answers = {}
def flood():
    while True:
        try:
            plain = socket.create_connection(("127.0.0.1", port), timeout=20, source_address=("127.0.0.2", 0))
            with trust.wrap_socket(plain, server_hostname="localhost") as connection:
                while True:
                    connection.sendall(request)
                    status = connection.recv(4096).split()[1]
                    answers[status] = answers.get(status, 0) + 1
        except (OSError, IndexError):
            pass
for _ in range(24):
    threading.Thread(target=flood, daemon=True).start()
began = time.monotonic()
while True:
    time.sleep(5)
    print(round(time.monotonic() - began), {k.decode(): v for k, v in answers.items()}, flush=True)
"""


def test_a_flood_of_requests_from_one_address_does_not_stop_a_round(under: Under) -> None:
    """The attacker has an address of its own, as on a network; nginx counts requests by address."""
    deployment, app = under.deployment, under.deployment.folder / "hospitals"
    write_app(app)
    for site in range(2):
        deployment.start(
            f"node{site}", "feddc", "flower", "node", "--superlink", f"127.0.0.1:{under.attacker.port}",
            "--host", "127.0.0.1", "--port", str(free_port()), "--root-certificates", "ca.crt",
            "--auth-supernode-private-key", f"node{site}", "--node-config", f"partition-id={site} num-partitions=2",
        )  # fmt: skip
    certificate = str(deployment.folder / "ca.crt")
    flood = deployment.start("flood", sys.executable, "-c", FLOOD, str(under.attacker.port), certificate)
    bound = " ".join(f"{site}={node}" for site, node in enumerate(under.nodes))
    run = deployment.run(app, f'nodes="{bound}" clients=2 rounds=2 epochs=1 answer-within=300 wait=600')
    assert deployment.finish(run) == "finished:completed", deployment.log("flood")
    assert flood.poll() is None
    assert "'503'" in deployment.log("flood")  # the gateway's own answer
    assert [record["participants"] for record in deployment.records("hospitals")] == [[0, 1]] * 2


def test_a_stranger_cannot_fill_the_superlinks_memory(under: Under) -> None:
    before, held = under.memory(), []
    for _ in range(3):
        connection = under.attacker.connect()
        held.append(connection)
        head = "POST /v1/fleet/push-object HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/protobuf\r\n"
        with suppress(OSError):  # the gateway ends the connection
            connection.sendall(f"{head}Content-Length: 300000001\r\n\r\n".encode())
            connection.sendall(bytes(300_000_000))
    time.sleep(2)
    assert under.memory() < before + 100
    for connection in held:
        connection.close()


def test_connections_that_never_ask_do_not_keep_others_out(under: Under) -> None:
    held = []
    for _ in range(1100):
        connection = under.attacker.connect()
        connection.sendall(b"POST /v1/fleet/pull-messages HTTP/1.1\r\nX: ")
        held.append(connection)
    try:
        assert under.attacker.ask("/v1/fleet/pull-messages") == 401
        deadline = time.monotonic() + 60
        while held[0].recv(100):  # the gateway ends it
            assert time.monotonic() < deadline
    finally:
        for connection in held:
            connection.close()
