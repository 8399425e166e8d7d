"""deploy/ and what goes with it: files that parse and agree with the commands, the version bound, health, a gateway."""

from __future__ import annotations

import configparser
import dataclasses
import http.server
import re
import shlex
import shutil
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import click
import pytest
import yaml

import feddc
from feddc.cli import main
from feddc.cli.flower import flower
from feddc.flower import Settings, local, versions
from feddc.flower.new import write_app
from feddc.flower.settings import override
from feddc.options import LocalTraining
from tests.flower.deployment import free_port
from tests.flower.gateway import NGINX, allowed, nginx_command

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def options_of(program: str, words: list[str]) -> list[str]:
    """The options of the part of a command line after ``program``."""
    return [word for word in words[words.index(program) :] if word.startswith("--")]


def known_to(command: str) -> set[str]:
    """The options that Flower's own parsers know."""
    from flwr.superlink.cli.flower_superlink import _parse_args_run_superlink
    from flwr.supernode.cli.flower_supernode import _parse_args_run_supernode

    parser = {"flower-superlink": _parse_args_run_superlink, "node": _parse_args_run_supernode}[command]()
    return {option for action in parser._actions for option in action.option_strings} | {"--app-hash"}


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_units(path: Path) -> None:
    unit = configparser.RawConfigParser(strict=False, delimiters=("=",))
    unit.optionxform = str  # type: ignore[method-assign,assignment]
    unit.read(path)
    assert {"Unit", "Service", "Install"} <= set(unit.sections())
    words = shlex.split(unit["Service"]["ExecStart"])
    assert words[0].startswith("/opt/feddc/bin/")
    name = "node" if "node" in words else "flower-superlink"
    program = "node" if name == "node" else words[0]
    assert set(options_of(program, words)) <= known_to(name)
    assert "--insecure" not in words
    assert unit["Service"]["Restart"] in ("always", "on-failure")
    assert unit["Service"]["NoNewPrivileges"] == "true"
    if name == "node":
        assert "--app-hash" in words
    else:
        assert words[words.index("--host") + 1] == "127.0.0.1"  # only the gateway is reached from outside


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_itself_takes_the_units(path: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    text = re.sub(r"(?m)^ExecStart=/opt/feddc/bin/\S+", "ExecStart=/bin/true", path.read_text())  # not installed here
    assert "PATH=/opt/feddc/bin:" in text  # Flower's processes start each other by name
    (tmp_path / path.name).write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / path.name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if path.name in line]
    assert said == []


@pytest.mark.skipif(NGINX is None or not shutil.which("openssl"), reason="needs nginx (or FEDDC_NGINX) and openssl")
def test_nginx_itself_takes_the_gateway(tmp_path: Path) -> None:
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout server.key -out server.pem"
    subprocess.run(shlex.split(make), cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "ca.crt").write_bytes((tmp_path / "server.pem").read_bytes())
    done = subprocess.run(nginx_command(tmp_path, 8000, free_port(), "-t"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "emerg" not in done.stderr
    assert "[warn]" not in done.stderr


@pytest.mark.skipif(not shutil.which("logrotate"), reason="needs logrotate")
def test_logrotate_itself_takes_the_rules() -> None:
    done = subprocess.run(
        ["logrotate", "--debug", str(DEPLOY / "logrotate.conf")], capture_output=True, text=True, check=False
    )
    assert "error:" not in done.stderr.lower()


def test_compose_file() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert set(services) == {"superlink", "gateway", "node"}
    superlink = shlex.split(services["superlink"]["command"])
    assert set(options_of("flower-superlink", superlink)) <= known_to("flower-superlink")
    assert superlink[superlink.index("--host") + 1] == "127.0.0.1"
    node = shlex.split(shlex.split(services["node"]["command"])[2])
    assert set(options_of("node", node)) <= known_to("node")
    assert "--app-hash" in node
    assert services["node"]["cap_drop"] == ["ALL"]
    for service in services.values():
        assert service["restart"] == "unless-stopped"
        assert all(Path(DEPLOY / mount.partition(":")[0]).exists() for mount in service["volumes"] if "nginx" in mount)


def test_dockerfile() -> None:
    lines = [line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
    verbs = {line.split()[0] for line in lines if not line.startswith((" ", "\t"))}
    assert verbs <= {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "CMD"}
    user = max(i for i, line in enumerate(lines) if line.startswith("USER"))
    assert lines[user] == "USER feddc"
    assert not any(line.startswith("USER root") for line in lines)
    copied = [word for line in lines if line.startswith("COPY") and "--from" not in line for word in line.split()[1:-1]]
    assert all((ROOT / name).exists() for name in copied)
    set_in_image = dict(re.findall(r"(FLWR_[A-Z_]+)=(\S+)", (DEPLOY / "Dockerfile").read_text()))
    assert local.OFFLINE.items() <= set_in_image.items()


def test_the_gateway_passes_on_the_fleet_and_nothing_else() -> None:
    assert allowed() == (["/v1/fleet/"], 403)


def test_the_supported_versions_of_flower(monkeypatch: pytest.MonkeyPatch) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert versions.requirement() in extras["flower"]
    pinned = re.search(r"^flwr==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned
    assert pinned[1] == metadata.version("flwr")
    versions.check_flower()
    for other in ("1.40.3", "1.42.0", "2.0.0"):
        monkeypatch.setattr(versions, "version", lambda _, other=other: other)
        with pytest.raises(feddc.ConfigError, match=f"flwr {other} is installed, but this feddc needs another: pip"):
            versions.check_flower()


@pytest.fixture
def superlink() -> Iterator[tuple[int, list[int]]]:
    """A server that answers /health with the status in the list."""
    status = [200]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status[0] if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port, status
        server.shutdown()


def health(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["flower", "health", *words])
    return int(str(end.value.code))


def test_health(superlink: tuple[int, list[int]], capsys: pytest.CaptureFixture[str]) -> None:
    port, status = superlink
    assert health(f"127.0.0.1:{port}") == 0
    assert capsys.readouterr().out == "healthy\n"
    status[0] = 503
    assert health(f"127.0.0.1:{port}") == 2
    assert "is not healthy: HTTP status 503" in capsys.readouterr().err
    assert health(f"127.0.0.1:{free_port()}") == 2
    assert "does not answer: [Errno 111]" in capsys.readouterr().err
    assert health("nonsense") == 2
    assert "the address must be HOST:PORT, not 'nonsense'" in capsys.readouterr().err


def test_the_end_of_a_run_as_flower_lists_it() -> None:
    assert local.newest('{"runs": [{"status": "running", "run-id": "7"}, {"status": "x"}]}') == ("running", "7")
    assert local.newest('{"runs": []}') == ("not started", None)
    assert local.newest("no JSON") is None
    assert local.newest('{"success": false, "error-message": "busy"}') is None


def test_every_command_of_flower_says_what_it_does() -> None:
    context = click.Context(flower)
    for name in flower.list_commands(context):
        command = flower.get_command(context, name)
        assert command
        assert command.help, name


def test_every_setting_is_a_key_of_a_new_app(tmp_path: Path) -> None:
    """Flower refuses a --run-config key that the app's config does not have."""
    write_app(tmp_path / "hospitals")
    app = tomllib.loads((tmp_path / "hospitals" / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    keys = {field.name for kind in (Settings, LocalTraining) for field in dataclasses.fields(kind)} - {
        "training",
        "attack",
    }
    assert {key.replace("-", "_") for key in app["config"]} == keys | {"method"}
    settings = override(Settings(), app["config"])
    assert settings == Settings(experiment="hospitals", training=LocalTraining(batch_size=10))


def test_up_wants_a_config_for_every_site(tmp_path: Path) -> None:
    with pytest.raises(feddc.ConfigError, match=r"^there are 3 sites, but 2 node configs"):
        local.LocalFederation(tmp_path, 3, ["a=1", "b=2"])
