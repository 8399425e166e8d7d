"""Put small mistakes into the package, one at a time, and see whether the tests notice.

    python -m tests.mutants                        20 mistakes in each of algorithms, engine and report
    python -m tests.mutants engine --each 100      more of them, in one room
    python -m tests.mutants report --seed 3        other ones

A mistake is made in a copy of the package, never in the package itself: an operator, a comparison, a number or a truth
value is replaced by another. Those that pass are printed. One that changes nothing that anybody could see is listed in
``tests/mutants.txt`` with the reason, and is then not made any more. Ends with 1 if fewer than 95 % were noticed.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
ACCEPTED = Path(__file__).with_name("mutants.txt")
TESTS = {
    "algorithms": ["tests/algorithms", "tests/test_reference.py"],
    "engine": ["tests/engine", "tests/algorithms", "tests/test_reference.py"],
    "report": ["tests/report"],
}
WANTED = 0.95
SECONDS = 600
OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Mistake:
    """One place in one file, and what stands there instead."""

    file: str
    place: int
    """The number of the node in the order of ``ast.walk``."""
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}: {self.before}  →  {self.after}"


def mistakes(package: Path, room: str) -> Iterator[Mistake]:
    """Every mistake that can be made in a room."""
    for file in sorted((package / room).rglob("*.py")):
        tree = ast.parse(file.read_text())
        nodes, statements = list(ast.walk(tree)), _statements(tree)
        for place, node in enumerate(nodes):
            if place in statements and _changed(node) is not None:
                statement, kept = nodes[statements[place]], dict(vars(node))
                before = _short(statement)
                _change(node)
                yield Mistake(file.relative_to(package).as_posix(), place, before, _short(statement))
                vars(node).update(kept)


def apply(mistake: Mistake, package: Path) -> None:
    """Make the mistake in this copy of the package."""
    file = package / mistake.file
    tree = ast.parse(file.read_text())
    _change(next(each for i, each in enumerate(ast.walk(tree)) if i == mistake.place))
    file.write_text(ast.unparse(tree))


def noticed(mistake: Mistake, room: str) -> bool:
    """Whether the tests of the room fail with this mistake; one that never ends is noticed, too."""
    with tempfile.TemporaryDirectory(prefix="feddc-mutant-") as name:
        copy = Path(name) / "feddc"
        shutil.copytree(ROOT / "src" / "feddc", copy, ignore=shutil.ignore_patterns("__pycache__"))
        apply(mistake, copy)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *TESTS[room]]
        env = {**os.environ, "PYTHONPATH": name, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=SECONDS).returncode != 0
        except subprocess.TimeoutExpired:
            return True


def accepted() -> dict[str, str]:
    """The mistakes that nobody could see, each with the reason."""
    lines = [line for line in ACCEPTED.read_text().splitlines() if line.strip() and not line.startswith("#")]
    return dict(map(str.strip, line.rsplit("|", 1)) for line in lines)  # type: ignore[misc]


def _changed(node: ast.AST) -> object | None:
    """What the node could be instead, or None where it is left alone."""
    if isinstance(node, ast.BinOp | ast.AugAssign):
        return OPERATORS.get(type(node.op))
    if isinstance(node, ast.BoolOp):
        return OPERATORS[type(node.op)]
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return OPERATORS.get(type(node.ops[0]))
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return not node.value if isinstance(node.value, bool) else node.value + 1
    return ast.USub if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else None


def _change(node: ast.AST) -> None:
    other = _changed(node)
    if isinstance(node, ast.Constant):
        node.value = other  # type: ignore[assignment]
    elif isinstance(node, ast.Compare):
        node.ops = [other()]  # type: ignore[operator]
    elif isinstance(node, ast.UnaryOp):
        node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
    elif isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp):
        node.op = other()  # type: ignore[operator]


def _statements(tree: ast.AST) -> dict[int, int]:
    """For every node in which a mistake is worth making, the simple statement around it, both by number.

    Annotations, decorators' arguments, messages and ``__all__`` are left out: a mistake there is no mistake.
    """
    numbers = {id(node): i for i, node in enumerate(ast.walk(tree))}
    found: dict[int, int] = {}
    skipped = (ast.JoinedStr, ast.AnnAssign, ast.Raise, ast.Assert)

    def visit(node: ast.AST, statement: int | None) -> None:
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.ClassDef):
            statement = numbers[id(node)]
        if statement is not None:
            found[numbers[id(node)]] = statement
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        if isinstance(node, skipped) or called in ("check", "option", "TypeVar"):
            return
        for child in ast.iter_child_nodes(node):
            if child is not getattr(node, "annotation", None) and child is not getattr(node, "returns", None):
                visit(child, statement)

    visit(tree, None)
    return found


def _short(statement: ast.AST) -> str:
    """A statement in one line, without the block that it opens."""
    return ast.unparse(statement).partition("\n")[0][:160]


def main() -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rooms", nargs="*", default=list(TESTS), help="algorithms, engine, report")
    parser.add_argument("--each", type=int, default=20, help="mistakes in each room")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    known, seen, missed = accepted(), 0, list[Mistake]()
    for room in given.rooms:
        every = [each for each in mistakes(ROOT / "src" / "feddc", room) if str(each) not in known]
        chosen = random.Random(given.seed).sample(every, min(given.each, len(every)))
        for i, mistake in enumerate(chosen, 1):
            good = noticed(mistake, room)
            seen += 1
            missed += [] if good else [mistake]
            print(f"{room} {i}/{len(chosen)} {'noticed' if good else 'PASSED '}  {mistake}", flush=True)
    share = 1 - len(missed) / max(1, seen)
    print(f"{seen - len(missed)} of {seen} noticed ({share:.1%}), {len(known)} accepted")
    return 0 if share >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
