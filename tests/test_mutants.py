"""The mistakes that `make mutants` makes are mistakes, and the package stays as it is."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from tests import mutants, noticing

SOURCE = '''
"""A room."""

def grow(x: int, y: float = 2.0) -> float:
    if x < 3 and not y:
        raise ValueError(f"{x + 1}")
    return x * y + 1
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "file.py").write_text(SOURCE)
    return tmp_path


def test_every_operator_and_number_is_changed_once(package: Path) -> None:
    found = [(each.before, each.after) for each in mutants.mistakes(package, "room")]
    assert ("return x * y + 1", "return x * y - 1") in found
    assert ("return x * y + 1", "return x / y + 1") in found
    assert ("return x * y + 1", "return x * y + 2") in found
    assert ("if x < 3 and (not y):", "if x <= 3 and (not y):") in found
    assert ("if x < 3 and (not y):", "if x < 3 or not y:") in found
    assert ("if x < 3 and (not y):", "if x < 3 and (not not y):") in found
    assert ("if x < 3 and (not y):", "if x < 4 and (not y):") in found
    assert len(found) == 7  # not the message, not the default


def test_a_mistake_is_made_where_it_was_found(package: Path) -> None:
    for each in mutants.mistakes(package, "room"):
        changed = ast.unparse(mutants.mistaken(each, package))
        assert each.after in changed
        assert changed != ast.unparse(ast.parse(SOURCE))
        assert mutants.enclosing(each, package) == 4
    assert (package / "room" / "file.py").read_text() == SOURCE


def test_a_mistake_outside_of_functions_is_in_none(package: Path) -> None:
    (package / "room" / "file.py").write_text(
        "LIMIT = 3\n\n\ndef low(x: int, y: int = 1 + 1) -> bool:\n    return x < y\n"
    )
    found = {each.after: mutants.enclosing(each, package) for each in mutants.mistakes(package, "room")}
    assert found == {"LIMIT = 4": None, "return x <= y": 4}


def test_the_functions_of_a_process_get_the_mistaken_code(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setattr(noticing, "PACKAGE", package)
    grow = importlib.import_module("room.file").grow
    assert grow(2, 3.0) == 7.0
    [wrong] = [each for each in mutants.mistakes(package, "room") if each.after == "return x * y - 1"]
    noticing.swap(wrong, str(package / "room" / "file.py"))
    assert grow(2, 3.0) == 5.0


def test_what_is_accepted_can_still_be_made() -> None:
    """A line that no mistake has any more would hide nothing: remove it."""
    rooms = {line.partition("/")[0] for line in mutants.accepted()}
    every = {str(each) for room in rooms for each in mutants.mistakes(mutants.ROOT / "src" / "feddc", room)}
    assert set(mutants.accepted()) <= every
    assert all(mutants.accepted().values())
