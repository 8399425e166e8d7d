"""What the documents show is what runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import feddc
from feddc.algorithms import METHODS

PROJECT = Path(__file__).parent.parent


def blocks(file: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (PROJECT / file).read_text(), re.DOTALL)


def test_the_readme_example_runs_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    [example] = blocks("README.md")
    exec(compile(example, "README.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 6


def test_the_method_of_contributing_passes_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.algorithms import test_contract as contract

    [source] = blocks("CONTRIBUTING.md")
    namespace = {"__name__": "feddc.algorithms.fedlean", "__package__": "feddc.algorithms"}
    monkeypatch.setitem(__import__("sys").modules, "feddc.algorithms.fedlean", type(feddc)("fedlean"))
    exec(compile(source, "CONTRIBUTING.md", "exec", dont_inherit=True), namespace)
    method = namespace["FedLean"](lean=0.1)  # type: ignore[operator]
    contract.test_is_pure(method)
    contract.test_rows_equal_one_client_at_a_time(method)
    contract.test_server_state_does_not_grow_with_clients(method)
    contract.test_does_not_move_when_clients_do_not(method)
    contract.test_solves_a_quadratic(method)


def test_the_readme_names_the_eight_methods() -> None:
    text = (PROJECT / "README.md").read_text()
    eight = ("fedavg", "fedprox", "scaffold", "feddyn", "feddc", "fedadam", "fedyogi", "fedadagrad")
    assert all(name in METHODS and f"`{name}`" in text for name in eight)
