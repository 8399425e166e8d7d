"""Names with options: taken apart once, and those of one's own by file or module."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import feddc
from feddc.specs import Spec
from tests.cli.test_cli import SMALL, feddc as command

OWN = """
import feddc, torch
from torch import nn
from feddc.algorithms.fedavg import FedAvg
from dataclasses import dataclass

class Net(nn.Module):
    def __init__(self, width: int = 3, classes: int = 2):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, classes))
    def forward(self, x):
        return self.layers(x)

@dataclass(frozen=True)
class Half(FedAvg):
    beta: float = 0.5

def halves(request, share: float = 0.5):
    whole = feddc.load("digits", clients=request.clients, seed=request.seed)
    return whole

number = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """The name of a file with a network, a method and data that no registry knows."""
    name = f"own_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return f"{name}.py"


@pytest.mark.parametrize(
    ("text", "name", "options", "label"),
    [
        ("feddc:alpha=0.1:server=yogi", "feddc", {"alpha": "0.1", "server": "yogi"}, "feddc"),
        ("fcn:100:50", "fcn", {}, "fcn"),
        ("net.py:Net:width=3", "net.py:Net", {"width": "3"}, "Net"),
        ("pkg.mod:Net", "pkg.mod:Net", {}, "Net"),
        ("images:path=a/b.c", "images", {"path": "a/b.c"}, "images"),
    ],
)
def test_a_text_in_its_parts(text: str, name: str, options: dict[str, str], label: str) -> None:
    spec = Spec.parse(f" {text} ")
    assert (spec.name, spec.options, spec.label, str(spec)) == (name, options, label, text)


def test_a_network_a_method_and_data_of_ones_own(own: str, tmp_path: Path) -> None:
    options = ["--model", f"{own}:Net:width=5", "--method", f"{own}:Half:beta=0.25", "--data", f"{own}:halves"]
    assert command("run", *SMALL, "--batch-size", "20", *options, "--out", "r", "--quiet") == 0
    config = (tmp_path / "r" / "config.toml").read_text()
    assert f'model = "{own}:Net:width=5"' in config
    from safetensors.torch import load_file

    assert load_file(tmp_path / "r" / "model.safetensors")["layers.1.weight"].shape == (5, 64)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--model", "none.py:Net"], "there is no file none.py"),
        (["--model", "OWN:Nett"], "did you mean 'Net'?"),
        (["--model", "OWN:Net:widht=3"], "did you mean 'width'?"),
        (["--model", "OWN:number"], "unknown model in"),
        (["--model", "no.such.module:Net"], "cannot be imported: ModuleNotFoundError"),
        (["--method", "OWN:Net:width=3"], "is not a method"),
        (["--data", "OWN:Net"], "must give a feddc.Federation"),
    ],
)
def test_what_cannot_be_used_is_refused(
    own: str, option: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("run", *SMALL, *[each.replace("OWN", own) for each in option], "--out", "r") == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not Path("r").exists()


@pytest.mark.usefixtures("own")
def test_a_file_named_like_a_module_that_python_has(capsys: pytest.CaptureFixture[str]) -> None:
    Path("json.py").write_text(OWN)
    assert command("run", *SMALL, "--model", "json.py:Net", "--out", "r") == 2
    assert "Python has another module 'json'" in capsys.readouterr().err


def test_make_model_takes_it_too(own: str) -> None:
    model = feddc.make_model(f"{own}:Net:width=4", (64,), 10)
    assert sum(p.numel() for p in model.parameters()) == 64 * 4 + 4 + 4 * 10 + 10
