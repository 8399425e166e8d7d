"""A site that has pinned an app runs it and no other code, however that code comes to it."""

from __future__ import annotations

import compileall
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from flwr.common.serde import fab_to_proto, user_config_to_proto
from flwr.proto.control_pb2 import StartRunRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab

import feddc
from feddc.cli import main
from feddc.flower.client.launcher import PIN
from feddc.flower.client.pins import app_hash, digest, manifest
from feddc.flower.new import write_app
from tests.flower.deployment import BIN, OFFLINE, Deployment, descendants, free_port

IMPORT = """
from feddc.flower.client.pins import enforce
enforce()
import sys
sys.path.insert(0, sys.argv[1])
import importlib
print(importlib.import_module(sys.argv[2]).__name__)
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("app") / "hospitals"
    write_app(folder)
    return folder


@pytest.fixture(scope="module")
def pin(app: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
        return app_hash(app)


@pytest.fixture
def unpacked(app: Path, tmp_path: Path) -> Path:
    """The app as Flower unpacks it at a site."""
    env = {**os.environ, **OFFLINE}
    subprocess.run([BIN / "flwr", "build", "--app", app], cwd=tmp_path, env=env, check=True, capture_output=True)
    [built] = tmp_path.glob("*.fab")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(tmp_path / "me.hospitals")
    return tmp_path / "me.hospitals"


def run(folder: Path, module: str, pin: str) -> subprocess.CompletedProcess[str]:
    path = str(Path(feddc.__file__).parents[1])
    env = {**os.environ, PIN: pin, "PYTHONPATH": path, "MARK": str(folder.parent / "mark")}
    command = [sys.executable, "-P", "-c", IMPORT, str(folder), module]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_the_pinned_app_runs(unpacked: Path, pin: str) -> None:
    for _ in range(2):
        done = run(unpacked, "hospitals.client", pin)
        assert (done.returncode, done.stdout) == (0, "hospitals.client\n"), done.stderr


EVIL = "import os, pathlib\npathlib.Path(os.environ['MARK']).touch()\n"


def changed_file(folder: Path) -> str:
    path = folder / "hospitals" / "client.py"
    path.write_text(EVIL + path.read_text())
    return "hospitals.client"


def added_file(folder: Path) -> str:
    (folder / "hospitals" / "more.py").write_text(EVIL)
    return "hospitals.more"


def other_component(folder: Path) -> str:
    path = folder / "pyproject.toml"
    path.write_text(path.read_text().replace("hospitals.client:app", "wave:open"))
    return "wave"  # a module of Python itself, which nobody has imported yet


def other_app(folder: Path) -> str:
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "thief.py").write_text(EVIL)
    return "thief"


@pytest.mark.parametrize("change", [changed_file, added_file, other_component, other_app])
def test_any_other_is_refused_before_a_line_of_it_runs(
    change: Callable[[Path], str], unpacked: Path, pin: str, tmp_path: Path
) -> None:
    done = run(unpacked, change(unpacked), pin)
    assert done.returncode == 1
    assert f"this site runs only the app with the hash {pin}" in done.stderr
    assert not (tmp_path / "mark").exists()


def test_compiled_code_beside_the_pinned_source_is_not_used(unpacked: Path, pin: str, tmp_path: Path) -> None:
    source = unpacked / "hospitals" / "client.py"
    original, about = source.read_bytes(), source.stat()
    evil = (EVIL.encode() + b"#" * len(original))[: len(original)]
    source.write_bytes(evil)
    os.utime(source, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert compileall.compile_file(source, quiet=1)
    source.write_bytes(original)
    os.utime(source, ns=(about.st_atime_ns, about.st_mtime_ns))
    plain = subprocess.run(  # Python itself would run what was compiled
        [sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import hospitals.client", str(unpacked)],
        env={**os.environ, "MARK": str(tmp_path / "mark")}, check=False, capture_output=True,
    )  # fmt: skip
    assert (tmp_path / "mark").exists(), plain.stderr
    (tmp_path / "mark").unlink()
    assert run(unpacked, "hospitals.client", pin).returncode == 0
    assert not (tmp_path / "mark").exists()


UNPACK = """
from feddc.flower.client.pins import enforce
enforce()
import sys
from pathlib import Path
from flwr.cli.install import install_from_fab
install_from_fab(Path(sys.argv[1]).read_bytes(), skip_prompt=True)
"""


UNPACK_PINNED = """
from feddc.flower.client.pins import enforce, unpack_only_the_pinned
enforce()
unpack_only_the_pinned()
import sys
from pathlib import Path
from flwr.cli.install import install_from_fab
for path in sys.argv[1:]:
    try:
        install_from_fab(Path(path).read_bytes(), skip_prompt=True)
    except Exception as error:
        print(error)
"""


def fab_of(folder: Path, more: dict[str | zipfile.ZipInfo, bytes], place: Path) -> Path:
    """An app as Flower packs it, with further members."""
    files: dict[str | zipfile.ZipInfo, bytes] = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".info" not in path.parts and "__pycache__" not in path.parts
    }
    files |= more
    listed = [
        f"{name if isinstance(name, str) else name.filename},{hashlib.sha256(content).hexdigest()},0"
        for name, content in files.items()
    ]
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(".info/CONTENT", "\n".join(listed))
    return place


def link(name: str) -> zipfile.ZipInfo:
    """A member that is a symbolic link."""
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, 0o120777 << 16
    return info


def unpack(home: Path, code: str, pin: str, *fabs: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **OFFLINE, "FLWR_HOME": str(home), "PYTHONPATH": str(Path(feddc.__file__).parents[1])}
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    env |= {"TMPDIR": str(home / "tmp")} | ({PIN: pin} if pin else {})
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *map(str, fabs)], env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("pinned", [True, False])
def test_an_app_whose_version_is_a_path_is_not_unpacked_there(unpacked: Path, tmp_path: Path, pinned: bool) -> None:
    settings = unpacked / "pyproject.toml"
    settings.write_text(settings.read_text().replace('"1.0.0"', '"1/../../../../taken/here"'))
    done = unpack(tmp_path / "home" / ".flwr", UNPACK, "0" * 64 * pinned, fab_of(unpacked, {}, tmp_path / "fab"))
    assert (done.returncode == 0) is not pinned, done.stderr  # Flower itself would do it
    assert (tmp_path / "taken").exists() is not pinned
    assert ("outside Flower's folder" in done.stderr) is pinned


def test_only_the_pinned_app_is_unpacked(unpacked: Path, pin: str, tmp_path: Path) -> None:
    others: list[tuple[dict[str | zipfile.ZipInfo, bytes], str]] = [
        ({"hospitals/more.py": b"x"}, "nothing is unpacked"),
        ({"hospitals/zeros.py": bytes(150_000_000)}, "and at most 100000000 are unpacked here"),
        ({"../outside.py": b"x"}, "Unsafe path in FAB archive"),
        ({str(tmp_path / "outside.py"): b"x"}, "Unsafe path in FAB archive"),
        ({link("hospitals/link.py"): b"/etc/passwd"}, "nothing is unpacked"),
    ]
    fabs = [fab_of(unpacked, more, tmp_path / f"fab{i}") for i, (more, _) in enumerate(others)]
    done = unpack(tmp_path / "home", UNPACK_PINNED, pin, *fabs)
    for said, (_, sentence) in zip(done.stdout.splitlines(), others, strict=True):
        assert sentence in said
    assert not [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert not (tmp_path / "outside.py").exists()
    unpack(tmp_path / "home", UNPACK_PINNED, pin, fab_of(unpacked, {}, tmp_path / "fab"))
    [folder] = (tmp_path / "home" / "apps").iterdir()
    assert digest(manifest(folder)) == pin


def test_a_link_in_an_archive_is_no_link_when_it_is_unpacked(unpacked: Path, tmp_path: Path) -> None:
    """Also at a site that has pinned nothing."""
    fab = fab_of(unpacked, {link("hospitals/link.py"): b"/etc/passwd"}, tmp_path / "fab")
    done = unpack(tmp_path / "home", UNPACK, "", fab)
    assert done.returncode == 0, done.stderr
    [found] = (tmp_path / "home").rglob("link.py")
    assert not found.is_symlink()
    assert found.read_bytes() == b"/etc/passwd"


def test_the_hash_changes_with_every_file(
    app: Path, pin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "hospitals"
    shutil.copytree(app, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
        for same in (True, False):
            with pytest.raises(SystemExit):
                main(["flower", "hash", str(copy)])
            assert (capsys.readouterr().out == f"{pin}\n") is same
            (copy / "hospitals" / "task.py").write_text("x = 1\n")


def test_a_hash_that_is_none(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    with pytest.raises(SystemExit) as end:
        main(["flower", "node", "--app-hash", "abc", "--insecure"])
    assert end.value.code == 2
    assert "--app-hash must be the 64 digits" in capsys.readouterr().err


def submit(fab: Path, address: str) -> None:
    """As `flwr run` does, with an archive of one's own."""
    content = fab.read_bytes()
    about = fab_to_proto(Fab(hashlib.sha256(content).hexdigest(), content, {}))
    config = user_config_to_proto({"clients": 1, "rounds": 1, "wait": 300})
    with ControlHttpClient(f"http://{address}") as client:
        client.StartRun(StartRunRequest(fab=about, override_config=config))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("warm", [True, False])
def test_a_real_site_refuses_a_changed_app_and_runs_the_pinned_one(
    app: Path, pin: str, tmp_path: Path, warm: bool
) -> None:
    mine, theirs = tmp_path / "mine" / "hospitals", tmp_path / "theirs" / "hospitals"
    for copy in (mine, theirs):
        shutil.copytree(app, copy, ignore=shutil.ignore_patterns("__pycache__"))
    mark = tmp_path / "mark"
    client = theirs / "hospitals" / "client.py"
    client.write_text(f"open({str(mark)!r}, 'w').close()\n{client.read_text()}")
    with Deployment(tmp_path / "here") as deployment:
        deployment.superlink()
        node = deployment.start(
            "node0", "feddc", "flower", "node", "--app-hash", pin, "--superlink", deployment.address, "--insecure",
            "--host", "127.0.0.1", "--port", str(free_port()), "--node-config", "partition-id=0 num-partitions=1",
        )  # fmt: skip
        if not warm:
            deployment.until(lambda: len(descendants(node.pid)) == 3, 300, "the warm process runs")
            [pid] = [pid for pid in descendants(node.pid) if b"feddc" in Path(f"/proc/{pid}/cmdline").read_bytes()]
            os.kill(pid, signal.SIGKILL)
        refused = "is not used: it could not be reached or its app failed"
        run = deployment.run(theirs, "clients=1 rounds=1 epochs=1")
        deployment.until(lambda: refused in deployment.logs_of(run), 500, "the site refuses the changed app")
        deployment.flwr("stop", run, "dep")
        assert f"this site runs only the app with the hash {pin}" in deployment.log("node0")
        assert not mark.exists()
        if warm:  # what `flwr run` would not pack
            submit(fab_of(mine, {"hospitals/zeros.py": bytes(200_000_000)}, tmp_path / "fab"), deployment.address)
            refusal = "an app of 200"
            deployment.until(lambda: refusal in deployment.log("node0"), 500, "the site refuses to unpack it")
            run, *_ = deployment.flwr("ls", "dep")["runs"]
            deployment.flwr("stop", run["run-id"], "dep")
        log = deployment.stream(mine, 'clients=1 rounds=1 epochs=1 experiment="mine"')
        assert [record["participants"] for record in deployment.records("mine")] == [[0]], log + deployment.log("node0")
