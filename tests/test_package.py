"""The shape of the package: imports point one way, public names exist, heavy things wait until they are used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import feddc

ROOT = Path(feddc.__file__).parent
_GROUND = {"errors", "types", "specs", "rates", "options", "storage"}
_FLOOR = {*_GROUND, "algorithms", "data", "models", "tasks", "trust"}
LAYERS = {  # what each part may import, besides itself
    "errors": set(),
    "types": set(),
    "specs": {"errors"},
    "rates": {"errors", "specs"},
    "options": {"errors", "types", "rates"},
    "storage": {"errors", "types", "specs"},
    "algorithms": _GROUND,
    "trust": _GROUND,
    "data": {*_GROUND, "tasks"},
    "models": _GROUND,
    "engine": _FLOOR,
    "study": {*_FLOOR, "engine"},
    "paper": {*_FLOOR, "engine", "study"},
    "report": {*_FLOOR, "engine", "study", "paper"},
    "flower": {*_FLOOR, "engine", "study"},
}


def imports(file: Path) -> set[str]:
    """The parts of feddc that a file imports."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = list(parts[: len(parts) - node.level])
            names = [(node.module or "").split(".")] if node.module else [[alias.name] for alias in node.names]
            found |= {(base + name)[0] for name in names}
    return found - {"__version__"}


@pytest.mark.parametrize("part", LAYERS)
def test_dependencies_point_one_way(part: str) -> None:
    files = [*(ROOT / part).rglob("*.py")] if (ROOT / part).is_dir() else [ROOT / f"{part}.py"]
    for file in files:
        assert imports(file) - {part} <= LAYERS[part], file


def test_only_the_command_that_writes_an_app_imports_flower() -> None:
    files = [file for file in ROOT.rglob("*.py") if "flower" in imports(file) and "flower" not in file.parts]
    assert [file.relative_to(ROOT).as_posix() for file in files] == ["cli/flower.py"]


def test_methods_are_pure_arithmetic() -> None:
    """No file, clock, log or randomness in a method."""
    for file in (ROOT / "algorithms").glob("*.py"):
        named = {a.name for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Import) for a in n.names}
        assert named <= {"torch", "math"}, file


def test_the_round_loop_names_no_method() -> None:
    names = {"fedavg", "fedprox", "scaffold", "feddyn", "FedDC(", "isinstance(algorithm"}
    for file in (ROOT / "engine").rglob("*.py"):
        text = file.read_text().split('"""', 2)[-1]
        assert not [name for name in names if name in text], file


def test_what_lasts_on_disk_is_written_in_one_place() -> None:
    """A file that is flushed or locked elsewhere would have rules of its own."""
    files = [file for file in ROOT.rglob("*.py") if "fsync" in file.read_text() or "fcntl" in file.read_text()]
    assert [file.relative_to(ROOT).as_posix() for file in files] == ["storage/atomic.py"]


def test_exported_names() -> None:
    for name in set(feddc.__all__) - {"Vector"}:  # another name of torch.Tensor, which has none
        assert getattr(feddc, name).__doc__, name
    assert {"Algorithm", "Vector", "from_csv", "train", "compare", "load_run"} <= set(feddc.__all__)
    assert len(set(feddc.__all__)) == len(feddc.__all__)
    with pytest.raises(AttributeError, match="FedDCC"):
        _ = feddc.FedDCC  # type: ignore[attr-defined]


def test_the_type_checker_sees_the_same_names() -> None:
    tree = ast.parse((ROOT / "__init__.py").read_text())
    seen = {alias.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen - {None} == set(feddc.__all__)


def test_import_is_light() -> None:
    heavy = ("torch", "sklearn", "matplotlib", "rich", "flwr", "ray")
    script = f"import sys, feddc, feddc.cli; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_flower_client_does_not_wait_for_torch() -> None:
    script = "import sys; from feddc.flower import client_app; client_app('a:b', 'a:c'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
