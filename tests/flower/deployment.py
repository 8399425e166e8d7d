"""A SuperLink and SuperNodes as real processes on loopback, in a Flower home of their own. Nobody is left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import feddc
from tests.processes import gone_within as gone_within

BIN = Path(sys.executable).parent
OFFLINE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
    "RAY_USAGE_STATS_ENABLED": "0",
}

CERTIFICATES = """
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.crt
names=subjectAltName=IP:127.0.0.1,DNS:localhost
openssl req -newkey rsa:2048 -nodes -subj /CN=server -addext $names -keyout server.key -out server.csr
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -copy_extensions copy -out server.pem
ssh-keygen -q -t ecdsa -b 384 -N '' -f node0
ssh-keygen -q -t ecdsa -b 384 -N '' -f node1
ssh-keygen -q -t ecdsa -b 384 -N '' -f stranger
"""
"""The shell commands for a CA, a server's certificate and the keys of two sites and of a stranger."""
NEEDS_KEYS = pytest.mark.skipif(
    not shutil.which("openssl") or not shutil.which("ssh-keygen"), reason="needs openssl and ssh-keygen"
)

LONGEST = 1500
"""Seconds after which a run is given up: a busy machine may take ten times as long as a quiet one."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def trainers_of(folder: Path) -> list[int]:
    """The trainer processes of clients that keep their state in this folder: their command lines name it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            line = path.read_bytes()
            if b"feddc.flower.client.trainer" in line and str(folder).encode() in line:
                found.append(int(path.parent.name))
    return found


def descendants(pid: int) -> list[int]:
    """The children of a process, and theirs."""
    children = [
        int(child) for tasks in Path(f"/proc/{pid}/task").glob("*/children") for child in tasks.read_text().split()
    ]
    return children + [below for child in children for below in descendants(child)]


class Deployment:
    """Use as a context manager: at its end all processes that it started are gone."""

    def __init__(self, folder: Path, tls: bool = False) -> None:
        self.folder, self.tls = folder, tls
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.env = {**os.environ, **OFFLINE, "FLWR_HOME": str(self.home), "PATH": f"{BIN}:{os.environ['PATH']}"}
        self.env["PYTHONPATH"] = str(Path(feddc.__file__).parents[1])  # this feddc, and nothing of the tests
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.processes: list[subprocess.Popen[bytes]] = []
        security = f'root-certificates = "{folder / "ca.crt"}"' if tls else "insecure = true"
        (self.home / "config.toml").write_text(
            f'[superlink]\ndefault = "dep"\n\n[superlink.dep]\naddress = "{self.address}"\n{security}\n'
        )

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            self.stop(process)

    def start(self, log: str, *command: str) -> subprocess.Popen[bytes]:
        """A process in a group of its own, so that it can be ended with all its children."""
        with (self.folder / f"{log}.log").open("ab") as output:
            process = subprocess.Popen(
                command, env=self.env, cwd=self.folder, stdout=output, stderr=output, stdin=subprocess.DEVNULL,
                process_group=0,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def stop(self, process: subprocess.Popen[bytes], sign: int = signal.SIGKILL) -> None:
        """End a process and its group."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        process.wait(timeout=20)

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def superlink(self, *more: str) -> subprocess.Popen[bytes]:
        """A SuperLink that is ready, on the same port and with the same database each time."""
        security = [] if self.tls else ["--insecure"]
        process = self.start(
            "superlink", "flower-superlink", "--host", "127.0.0.1", "--port", str(self.port),
            "--disable-runtime-dependency-installation", "--database", str(self.folder / "state.db"), *security, *more,
        )  # fmt: skip
        self.until(self.listening, 300, "the SuperLink listens")
        return process

    def supernode(
        self, client: int, clients: int = 3, *more: str, config: str = "", warm: bool = False
    ) -> subprocess.Popen[bytes]:
        """A SuperNode: Flower's own command, or ours with a warm ClientApp."""
        command = ["feddc", "flower", "node"] if warm else ["flower-supernode"]
        security = ["--insecure"] if not self.tls and "--insecure" not in more else []
        return self.start(
            f"node{client}", *command, "--superlink", self.address, "--host", "127.0.0.1",
            "--port", str(free_port()), "--node-config", f"partition-id={client} num-partitions={clients} {config}",
            *security, *more,
        )  # fmt: skip

    def flwr(self, *args: str) -> Any:
        """The JSON that a `flwr` command prints."""
        done = subprocess.run(
            ["flwr", *args, "--format", "json"],
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
        )
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise AssertionError(f"flwr {args}: {done.stdout} {done.stderr}") from None

    def run(self, app: Path, config: str = "") -> str:
        """Submit a run; its id."""
        found = self.flwr("run", str(app), "dep", *(["--run-config", config] if config else []))
        assert found.get("success"), found
        return str(found["run-id"])

    def stream(self, app: Path, config: str, *more: str) -> str:
        """Run to the end; the log."""
        done = subprocess.run(
            ["flwr", "run", str(app), "dep", "--stream", "--run-config", config, *more],
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
        return done.stdout + done.stderr

    def logs_of(self, run: str) -> str:
        """What the ServerApp of a run said."""
        done = subprocess.run(
            ["flwr", "log", run, "dep", "--show"], env=self.env, capture_output=True, text=True, timeout=300
        )
        return done.stdout + done.stderr

    def status(self, run: str) -> str:
        return str(self.flwr("ls", "dep", "--run-id", run)["runs"][0]["status"])

    def finish(self, run: str, seconds: float = LONGEST) -> str:
        """Wait for the end of a run; its status."""
        self.until(lambda: self.status(run).startswith("finished"), seconds, f"run {run} finishes")
        return self.status(run)

    def until(self, true: Any, seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                logs = "\n".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in self.folder.glob("*.log"))
                raise AssertionError(f"waited {seconds} s in vain until {what}\n{logs}")
            time.sleep(1.0)  # a look may be a process of its own

    def records(self, experiment: str) -> list[dict[str, Any]]:
        path = self.home / "feddc" / experiment / "server" / "records.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def trainers(self) -> list[int]:
        return trainers_of(self.home)

    def listening(self) -> bool:
        return is_listening(self.port)
