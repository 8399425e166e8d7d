"""A gateway in front of a SuperLink with the rules of deploy/nginx.conf: nginx itself where it is installed."""

from __future__ import annotations

import http.client
import http.server
import os
import re
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.flower.deployment import free_port, is_listening

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"
NGINX = os.environ.get("FEDDC_NGINX") or shutil.which("nginx")


def allowed() -> tuple[list[str], int]:
    """The locations that are passed on, and the status that all others get."""
    blocks = re.findall(r"location (\S+) \{(.*?)\n        \}", CONFIGURATION.read_text(), re.DOTALL)
    [other] = [re.search(r"return (\d+)", body) for place, body in blocks if place == "/"]
    assert other
    return [place for place, body in blocks if "proxy_pass" in body], int(other[1])


@contextmanager
def gateway(folder: Path, superlink: int) -> Iterator[int]:
    """A gateway whose certificates are in ``folder``, before the SuperLink at a port of this machine; its own port."""
    start = with_nginx if NGINX else with_python
    with start(folder, superlink) as port:
        yield port


def nginx_command(folder: Path, superlink: int, port: int, *options: str) -> list[str]:
    """nginx with the gateway's configuration, whose paths and ports are those given."""
    text = CONFIGURATION.read_text()
    for old, new in {
        "listen 8443": f"listen 127.0.0.1:{port}",
        "127.0.0.1:8000": f"127.0.0.1:{superlink}",
        "/etc/feddc": str(folder),
        "/run/feddc-gateway.pid": str(folder / "gateway.pid"),
        "/var/cache/feddc-gateway": str(folder),
        "worker_processes auto": "worker_processes 1",
    }.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "nginx.conf").write_text(text)
    assert NGINX
    return [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf"), *options]


@contextmanager
def with_nginx(folder: Path, superlink: int) -> Iterator[int]:
    port = free_port()
    command = nginx_command(folder, superlink, port, "-g", "daemon off;")
    with (folder / "gateway.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not is_listening(port):
            assert process.poll() is None, (folder / "gateway.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=20)


@contextmanager
def with_python(folder: Path, superlink: int) -> Iterator[int]:
    passed, other = allowed()
    trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if not self.path.startswith(tuple(passed)):
                self._answer(other, {}, b"")
                return
            there = http.client.HTTPSConnection("127.0.0.1", superlink, context=trust, timeout=60)
            try:
                there.request("POST", self.path, body, dict(self.headers))
                answer = there.getresponse()
                kept = {
                    name: value for name, value in answer.getheaders() if name.lower().startswith(("content-t", "x-"))
                }
                self._answer(answer.status, kept, answer.read())
            finally:
                there.close()

        do_GET = do_POST  # noqa: N815

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "server.pem", folder / "server.key")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()
