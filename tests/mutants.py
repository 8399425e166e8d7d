"""Put small mistakes into the package, one at a time, and see whether the tests notice.

    python -m tests.mutants                        40 mistakes in each of algorithms, engine and report
    python -m tests.mutants engine --each 100      more of them, in one room
    python -m tests.mutants report --seed 3        other ones
    python -m tests.mutants --jobs 2               on two cores
    python -m tests.mutants report --again FILE    those whose printed lines are in this file: survivors of a pass

A mistake is an operator, a comparison, a number or a truth value that is replaced by another; the package itself is
never changed. Those that pass are printed. One that changes nothing that anybody could see is listed in
``tests/mutants.txt`` with the reason, and is then not made any more. Ends with 1 if fewer than 95 % were noticed in
a room.
How the tests are run so that a mistake takes a second and not a minute is in ``tests/noticing.py``.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "feddc"
ACCEPTED = Path(__file__).with_name("mutants.txt")
TESTS = {
    "algorithms": ["tests/algorithms", "tests/trust/test_leak.py", "tests/test_reference.py", "tests/test_methods.py"],
    "engine": [
        "tests/engine",
        "tests/algorithms",
        "tests/tasks/test_training.py",
        "tests/trust",
        "tests/test_reference.py",
        "tests/test_methods.py",
    ],
    "report": ["tests/report"],
}
ELSEWHERE = ("engine/executors/ray.py", "engine/executors/ray_actor.py")
"""Run by processes of their own, with tests that start a cluster: too slow to be tried here."""
WANTED = 0.95
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


def mistaken(mistake: Mistake, package: Path) -> ast.Module:
    """The file with the mistake in it, every statement in its old line."""
    tree = ast.parse((package / mistake.file).read_text())
    _change(next(each for i, each in enumerate(ast.walk(tree)) if i == mistake.place))
    return ast.fix_missing_locations(tree)


def enclosing(mistake: Mistake, package: Path) -> int | None:
    """The first line of the function that the mistake is in; None where it is in none, or in its defaults."""
    tree = ast.parse((package / mistake.file).read_text())
    places = {id(node): i for i, node in enumerate(ast.walk(tree))}
    found = None

    def visit(node: ast.AST, line: int | None) -> None:
        nonlocal found
        if places[id(node)] == mistake.place:
            found = line
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for name, value in ast.iter_fields(node):
            own = line
            if inside and name == "body":
                own = min([node.lineno, *(each.lineno for each in node.decorator_list)])  # type: ignore[attr-defined]
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    visit(child, own)

    visit(tree, None)
    return found


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

    Annotations, messages, ``__all__`` and zip's ``strict``, which only catches other mistakes, are left out: a mistake
    there is no mistake.
    """
    numbers = {id(node): i for i, node in enumerate(ast.walk(tree))}
    found: dict[int, int] = {}
    skipped = (ast.JoinedStr, ast.Raise, ast.Assert)

    def visit(node: ast.AST, statement: int | None) -> None:
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.ClassDef):
            statement = numbers[id(node)]
        if statement is not None:
            found[numbers[id(node)]] = statement
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        if isinstance(node, skipped) or called in ("check", "option", "TypeVar"):
            return
        if isinstance(node, ast.keyword) and node.arg == "strict":
            return
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        for child in ast.iter_child_nodes(node):
            if child is not getattr(node, "annotation", None) and child is not getattr(node, "returns", None):
                visit(child, statement)

    visit(tree, None)
    return found


def _short(statement: ast.AST) -> str:
    """A statement in one line, without the block that it opens."""
    return ast.unparse(statement).partition("\n")[0][:300]


def main() -> int:
    """Run it; the exit code."""
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # a process with threads cannot be copied
    from tests.noticing import try_mistakes

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rooms", nargs="*", default=list(TESTS), help="algorithms, engine, report")
    parser.add_argument("--each", type=int, default=40, help="mistakes in each room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", type=Path, help="a file with printed lines: only these mistakes")
    parser.add_argument("--jobs", type=int, default=1, help="mistakes that are tried at the same time")
    given = parser.parse_args()
    known, lines, enough = accepted(), [], True
    for room in given.rooms:
        seen = missed = 0
        every = [each for each in mistakes(PACKAGE, room) if each.file not in ELSEWHERE]
        if given.again is not None:
            printed = given.again.read_text()
            drawn = [each for each in every if str(each) in printed]
        else:
            drawn = random.Random(given.seed).sample(every, min(given.each, len(every)))
        chosen = [each for each in drawn if str(each) not in known]  # so that a new line does not change what is drawn
        for mistake, good in try_mistakes(chosen, TESTS[room], given.jobs):
            seen, missed = seen + 1, missed + (not good)
            print(f"{room} {seen} {'noticed' if good else 'PASSED '}  {mistake}", flush=True)
        share = 1 - missed / max(1, seen)
        lines.append(f"{room}: {seen - missed} of {seen} noticed ({share:.1%}), {len(drawn) - seen} accepted")
        enough &= share >= WANTED
    print("\n".join(lines))
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
