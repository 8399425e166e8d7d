"""`feddc flower up`: a whole federation on this machine, for trying an app with the processes of a real one.

One SuperLink and a node for each site, each in a process group of its own, with a log of its own, in a Flower home of
their own. They end together: when this process is told to end, when one of them ends, or when the run is over.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import ConfigError, RunError, check_count

OFFLINE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
"""No telemetry, no update checks, and the packages that are installed."""
POLLING = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2"}
"""Seconds between the looks of Flower's executor for work; by default one. With a database, each look is a write."""
START_SECONDS, END_SECONDS = 300, 15
CONNECTION = "federation"


class LocalFederation:
    """Use as a context manager: at its end all processes that it started are gone."""

    def __init__(
        self, folder: Path, sites: int, node_config: Sequence[str] = (), *, warm: bool = True, database: bool = False
    ) -> None:
        """``node_config`` are further settings of the sites, one text for each, such as 'data="a.csv"'.

        Without ``warm`` the sites are Flower's own `flower-supernode`, with which rounds take longer. With ``database``
        the SuperLink keeps its state on disk, as it has to where keys are registered; it is then slower, and on a
        machine with too much work it loses messages ("database is locked").
        """
        check_count("sites", sites)
        if node_config and len(node_config) != sites:
            raise ConfigError(f"there are {sites} sites, but {len(node_config)} node configs")
        for program in ("flower-superlink", "flower-supernode", "flwr"):
            if shutil.which(program) is None:
                raise ConfigError(f"{program} is not on the PATH: pip install 'feddc[flower]'")
        self.folder, self.sites, self.node_config = folder, sites, node_config
        self._database = ["--database", str(folder.resolve() / "federation.db")] if database else []
        self._node = [sys.executable, "-m", "feddc", "flower", "node"] if warm else ["flower-supernode"]
        self.home = folder / "home"
        self.port = free_port()
        self.environment = {**os.environ, **OFFLINE, **POLLING, "FLWR_HOME": str(self.home.resolve())}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> LocalFederation:
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "config.toml").write_text(
            f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\n'
            f'address = "127.0.0.1:{self.port}"\ninsecure = true\n'
        )
        try:
            self._start(
                "superlink", "flower-superlink", "--host", "127.0.0.1", "--port", str(self.port), "--insecure",
                "--disable-runtime-dependency-installation", *self._database,
            )  # fmt: skip
            self._until(lambda: listening(self.port), "the SuperLink listens")
            for site in range(self.sites):
                more = self.node_config[site] if self.node_config else ""
                self._start(
                    f"node{site}", *self._node, "--insecure",
                    "--superlink", f"127.0.0.1:{self.port}", "--host", "127.0.0.1", "--port", str(free_port()),
                    "--node-config", f"partition-id={site} num-partitions={self.sites} {more}".strip(),
                )  # fmt: skip
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            _signal(process, signal.SIGTERM)
        deadline = time.monotonic() + END_SECONDS
        for process in self.processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
            _signal(process, signal.SIGKILL)  # also what it has left behind
            process.wait()

    def check(self) -> None:
        """RunError if one of the processes has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise RunError(f"{name} has ended with exit code {process.returncode}: see {self.folder / name}.log")

    def run(self, app: Path, run_config: str = "") -> str:
        """Submit an app, show its log, and wait for its end: the status that Flower gives, such as finished:failed."""
        options = ["--run-config", run_config] if run_config else []
        self._show("run", str(app), CONNECTION, "--stream", *options)  # ends with 0 in any case
        while True:
            status, run = self._newest()
            if run is None or status.startswith("finished"):
                return status
            self.check()
            print("feddc: its log broke off; the run continues, and its log from the beginning:", file=sys.stderr)
            self._show("log", run, CONNECTION, "--stream")

    def _show(self, *words: str) -> None:
        """A `flwr` command whose output is for the user."""
        subprocess.run(["flwr", *words], env=self.environment, check=False)

    def _newest(self) -> tuple[str, str | None]:
        """Status and id of the newest run; a busy SuperLink is asked again."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            command = ["flwr", "ls", CONNECTION, "--format", "json"]
            done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
            found = newest(done.stdout)
            if found is not None:
                return found
            self.check()
            if time.monotonic() > deadline:
                raise RunError(f"the SuperLink does not say how the run ended: see {self.folder / 'superlink.log'}")
            time.sleep(1.0)

    def _start(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
            )

    def _until(self, true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not true():
            self.check()
            if time.monotonic() > deadline:
                raise RunError(f"waited {START_SECONDS} seconds in vain until {what}: see {self.folder}")
            time.sleep(0.2)


def newest(listed: str) -> tuple[str, str | None] | None:
    """Status and id of the newest run that `flwr ls --format json` lists; None if that is no list of runs."""
    try:
        runs: list[Any] = json.loads(listed)["runs"]
        return (str(runs[0]["status"]), str(runs[0]["run-id"])) if runs else ("not started", None)
    except (ValueError, KeyError, TypeError):
        return None


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
