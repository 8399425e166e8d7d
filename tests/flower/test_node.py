"""`feddc flower node`: the work of `flwr-clientapp` is done by forks of a warm process, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feddc.cli import main
from feddc.flower.client.processes import alive
from feddc.flower.new import write_app
from tests.flower.deployment import BIN, Deployment, descendants, free_port, gone_within

# In the place of a SuperNode, with a command of our own in the place of Flower's. It ends with its input.
STAND_IN = """
import sys
from feddc.flower.client import node, warm
sys.path.append({command!r})
def command():
    import command
    return command.main
warm.flwr_clientapp = command
print(node._start_warm(), flush=True)
sys.stdin.read()
"""
# Says what it got, then does what its first argument says.
COMMAND = """
import json, os, signal, sys, time
import numpy.random as random
def main():
    sys.path.insert(0, os.getcwd())
    import app
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(11))
    got = sys.argv, app.version, os.environ["TEST"], os.getpid(), os.getppid(), random.rand()
    print(json.dumps(got), flush=True)
    print("a warning", file=sys.stderr)
    if sys.argv[1] == "wait":
        time.sleep(60)
    return int(sys.argv[1])
"""


class Node:
    """A stand-in for a SuperNode, its warm process, and an app in a folder."""

    def __init__(self, folder: Path, home: Path | None = None) -> None:
        self.folder = folder
        (folder / "command.py").write_text(COMMAND)
        self.change(1)
        genuine = folder / "bin" / "flwr-clientapp"
        genuine.parent.mkdir()
        genuine.write_text('#!/bin/sh\necho "genuine $@"\nexit 5\n')
        genuine.chmod(0o700)
        code = STAND_IN.format(command=str(folder))
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "FLWR_HOME": str(home or folder)},
        )  # fmt: skip
        assert self.process.stdout
        self.place = Path(self.process.stdout.readline().strip())
        [self.warm] = descendants(self.process.pid)

    def change(self, version: int) -> None:
        (self.folder / "app").mkdir(exist_ok=True)
        (self.folder / "app" / "__init__.py").write_text(f"version = {version}  {'#' * version}\n")

    def launch(self, *arguments: str) -> subprocess.Popen[str]:
        path = f"{self.place}:{self.folder / 'bin'}:{os.environ['PATH']}"
        return subprocess.Popen(
            ["flwr-clientapp", *arguments], env={**os.environ, "PATH": path, "TEST": "here"}, cwd=self.folder,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.launch(*arguments)
        output, errors = process.communicate(timeout=20)
        return process.returncode, output, errors

    def at_work(self) -> tuple[subprocess.Popen[str], int]:
        """A launcher, and the process that does its work."""
        launcher = self.launch("wait")
        assert launcher.stdout
        pid = json.loads(launcher.stdout.readline())[3]
        assert pid != launcher.pid
        return launcher, pid


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.process.kill()
    node.process.communicate()
    assert gone_within(5, [node.warm])


def test_the_work_is_done_as_if_the_launcher_had_done_it(node: Node) -> None:
    said: list[Any] = []
    for version, code in ((1, 7), (2, 0)):
        node.change(version)  # a changed app is loaded
        returned, output, errors = node.run(str(code), "--token", "a b'c")
        said.append(json.loads(output))
        assert (returned, errors) == (code, "a warning\n")
        argv, found, test, pid, parent, _ = said[-1]
        assert Path(argv[0]).name == "flwr-clientapp"
        assert argv[1:] == [str(code), "--token", "a b'c"]
        assert (found, test, parent) == (version, "here", node.warm)
        assert gone_within(1, [pid])
    assert said[0][5] != said[1][5]  # not the same random numbers, such as noise, in every round
    assert descendants(node.warm) == []  # all were waited for


def test_without_the_warm_process_flowers_own_command_runs(node: Node) -> None:
    os.kill(node.warm, signal.SIGKILL)
    assert gone_within(5, [node.warm])
    assert node.run("7", "a b") == (5, "genuine 7 a b\n", "")


def test_work_that_cannot_begin_is_done_by_flowers_own_command(node: Node) -> None:
    os.kill(node.warm, signal.SIGSTOP)
    launcher = node.launch("7")
    time.sleep(0.3)
    assert launcher.poll() is None  # it waits for the warm process
    os.kill(node.warm, signal.SIGKILL)
    assert launcher.communicate(timeout=20) == ("genuine 7\n", "")


def test_work_that_needs_other_packages_is_done_by_flowers_own_command(node: Node) -> None:
    option = "--allow-runtime-dependency-installation"
    assert node.run("7", option) == (5, f"genuine 7 {option}\n", "")


def test_work_ends_when_it_is_done_even_if_other_work_began_meanwhile(node: Node) -> None:
    first, work = node.at_work()
    second, other = node.at_work()
    os.kill(work, signal.SIGTERM)
    first.communicate(timeout=5)
    assert first.returncode == 11
    assert second.poll() is None
    os.kill(other, signal.SIGTERM)
    second.communicate(timeout=5)
    assert second.returncode == 11


def test_signals_are_passed_on(node: Node) -> None:
    launcher, work = node.at_work()
    launcher.terminate()
    launcher.communicate(timeout=5)
    assert launcher.returncode == 11
    assert gone_within(1, [work])


@pytest.mark.parametrize("killed", ["launcher", "warm", "node", "work"])
def test_nothing_is_left_when_one_of_them_is_killed(node: Node, killed: str) -> None:
    launcher, work = node.at_work()
    pids = {"launcher": launcher.pid, "warm": node.warm, "node": node.process.pid, "work": work}
    os.kill(pids[killed], signal.SIGKILL)
    assert gone_within(5, [launcher.pid, work])
    launcher.communicate()
    assert launcher.returncode == {"launcher": -9, "work": 137}.get(killed, 1)
    if killed in ("launcher", "work"):
        assert node.run("3")[0] == 3  # the next message
    if killed == "node":
        assert gone_within(5, [node.warm])
        assert not node.place.exists()


def test_folders_of_killed_processes_are_removed_by_the_next(node: Node) -> None:
    os.kill(node.warm, signal.SIGKILL)
    node.process.kill()
    node.process.communicate()
    assert node.place.exists()
    other = Node(node.folder / "app", node.folder)
    assert not node.place.exists()
    assert other.place.exists()
    other.process.communicate()  # its input ends
    assert gone_within(5, [other.warm])


def test_the_warm_process_has_flowers_command_without_torch_and_one_thread() -> None:
    code = """if True:
        import os, sys
        from feddc.flower.client.warm import flwr_clientapp
        command = flwr_clientapp()
        assert "torch" not in sys.modules
        assert sys.platform != "linux" or len(os.listdir("/proc/self/task")) == 1
        sys.argv = ["flwr-clientapp", "--bogus"]
        command()
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "flwr-clientapp: error:" in done.stderr


def test_flower_is_not_installed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SystemExit) as end:
        main(["flower", "node", "--insecure"])
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("feddc: flower-supernode is not on the PATH: pip install")


def test_the_options_and_the_exit_code_are_those_of_flower_supernode(tmp_path: Path) -> None:
    with Deployment(tmp_path) as deployment:
        wrong = deployment.start("wrong", "feddc", "flower", "node", "--superlink", "127.0.0.1:1", "--bogus", "1")
        port = str(free_port())
        node = deployment.start(
            "node", "feddc", "flower", "node", "--superlink", "127.0.0.1:1", "--insecure", "--port", port
        )
        assert wrong.wait(timeout=60) == 2
        assert "flower-supernode: error: unrecognized arguments: --bogus 1" in deployment.log("wrong")
        deployment.until(lambda: len(descendants(node.pid)) == 3, 60, "SuperNode, executor and warm process run")
        started = descendants(node.pid)
        node.terminate()
        assert node.wait(timeout=30) == 0
        assert "SuperNode terminated gracefully" in deployment.log("node")
        assert gone_within(10, started)


def test_a_supernode_of_another_environment_runs_without(tmp_path: Path) -> None:
    other = tmp_path / "flower-supernode"
    other.write_text('#!/bin/sh\necho "$PATH: $@"\nexit 3\n')
    other.chmod(0o700)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        [BIN / "feddc", "flower", "node", "--insecure"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (3, f"{path}: --insecure\n")
    assert f"so rounds will be slower: {other} is not from feddc's own environment" in done.stderr


def test_without_a_place_for_its_socket_the_node_runs_all_the_same(tmp_path: Path) -> None:
    """A socket's path must be short."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    done = subprocess.run(
        [BIN / "feddc", "flower", "node", "--bogus"],
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "TMPDIR": str(long)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "no warm ClientApp, so rounds will be slower: AF_UNIX path too long" in done.stderr
    assert "flower-supernode: error:" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_changed_app_is_picked_up_and_a_killed_warm_process_is_done_without(tmp_path: Path) -> None:
    write_app(tmp_path / "hospitals")
    client = tmp_path / "hospitals" / "hospitals" / "client.py"
    source = client.read_text()
    with Deployment(tmp_path) as deployment:
        deployment.superlink()
        node = deployment.supernode(0, 1, warm=True)
        deployment.until(lambda: len(descendants(node.pid)) == 3, 60, "SuperNode, executor and warm process run")
        [warm] = [pid for pid in descendants(node.pid) if b"feddc" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        for rounds, killed in ((1, False), (2, False), (3, True)):
            if killed:
                os.kill(warm, signal.SIGKILL)
            client.write_text(f"import os\nprint('version {rounds}', os.getppid(), flush=True)\n{source}")
            log = deployment.stream(tmp_path / "hospitals", f"clients=1 epochs=1 rounds={rounds}")
            assert len(deployment.records("hospitals")) == rounds, log
            assert (f"version {rounds} {warm}\n" in deployment.log("node0")) is not killed
            assert f"version {rounds} " in deployment.log("node0")
        assert alive(node.pid)
        deployment.until(lambda: len(deployment.trainers()) == 1, 10, "one trainer is left, whoever did the work")
