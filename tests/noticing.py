"""Whether the tests notice a mistake, in about a second each.

The tests are collected once. A first run of them, in a copy of the process (``fork``), notes which functions of the
package each test calls, and how long it takes. For a mistake in a function another copy gets the function's mistaken
code and runs the tests that call it until one fails: first those that noticed another mistake in that function or
file, then the shortest. A mistake outside of functions, or in what
worker processes import, is made in a copy of the package, which a fresh pytest imports.

A mistake whose tests pass for ``CPU_SECONDS`` counts as not noticed; a test that does not end any more notices it.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from _pytest.runner import runtestprotocol

from tests.mutants import PACKAGE, ROOT, Mistake, enclosing, mistaken

CPU_SECONDS = 45
PATIENCE = 60
"""Seconds that a test may take before it counts as one that does not end."""
APART = -2
"""In place of the number of a test: noticed, but not by which."""
BROKEN = 70
"""How a copy ends that could not do its work: neither noticed nor passed."""
IN_WORKERS = ("worker.py", "workers.py", "pool.py", "shared.py")
Place = tuple[str, int]
"""A function: its file and first line."""


class Tested(NamedTuple):
    """A test that passes, by its number: how long it takes, and what it calls."""

    number: int
    seconds: float
    calls: frozenset[Place]


class Taker:
    """A pytest plugin that runs tests its own way, after they are collected."""

    def __init__(self, mistakes: Sequence[Mistake], jobs: int) -> None:
        self.mistakes, self.jobs = mistakes, jobs
        self.found: list[tuple[Mistake, bool]] = []
        self.noticed_by = RawArray("i", [-1] * len(mistakes))
        """For each mistake the number of the test that noticed it: memory that copies of this process share."""
        self.good: dict[object, Counter[int]] = defaultdict(Counter)
        """For each function, and each file, how many mistakes each test has noticed in it."""

    def pytest_configure(self) -> None:
        import hypothesis  # not before pytest has begun, which rewrites its asserts

        every = list(hypothesis.HealthCheck)  # a machine that is busy is no mistake
        hypothesis.settings.register_profile("mutants", deadline=None, suppress_health_check=every, derandomize=True)
        hypothesis.settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        tests: list[Tested] = pickle.loads(in_a_copy(lambda: first_run(session.items)))
        print(f"{len(tests)} of {len(session.items)} tests pass without a mistake", flush=True)
        good = {test.number for test in tests}
        for number, item in enumerate(session.items):
            if number not in good:
                print(f"fails without a mistake: {item.nodeid}", flush=True)
        running: dict[int, int] = {}
        for number in range(len(self.mistakes)):
            while len(running) >= self.jobs:
                self._one_ended(running)
            running[begun(lambda n=number: self._try(n, session.items, tests))] = number  # type: ignore[misc]
        while running:
            self._one_ended(running)
        return True

    def _try(self, number: int, items: Sequence[pytest.Item], tests: Sequence[Tested]) -> bool:
        mistake = self.mistakes[number]
        before = [self.good[place] for place in _places(mistake)]
        ordered = sorted(tests, key=lambda test: (*(-each[test.number] for each in before), test.seconds))
        noticed = notices(mistake, items, ordered)
        self.noticed_by[number] = -1 if noticed is None else noticed
        return noticed is not None

    def _one_ended(self, running: dict[int, int]) -> None:
        process, status = os.wait()
        if process in running:
            number, code = running.pop(process), os.waitstatus_to_exitcode(status)
            mistake = self.mistakes[number]
            if code == BROKEN:
                raise RuntimeError(f"could not be tried: {mistake}")
            if (test := self.noticed_by[number]) >= 0:
                for place in _places(mistake):
                    self.good[place][test] += 1
            self.found.append((mistake, code != 0))
            print("." if code else f"PASSED {mistake}\n", end="", flush=True)


def _places(mistake: Mistake) -> tuple[object, object]:
    """The function of a mistake, and its file."""
    return (mistake.file, enclosing(mistake, PACKAGE)), mistake.file


def try_mistakes(mistakes: Sequence[Mistake], tests: Sequence[str], jobs: int) -> list[tuple[Mistake, bool]]:
    """Each mistake, and whether these tests notice it."""

    def work() -> bytes:
        torch.set_num_threads(1)
        taker = Taker(mistakes, jobs)
        options = ["-s", "-q", "--no-summary", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "timeout=0"]
        pytest.main([*options, *(str(ROOT / each) for each in tests)], plugins=[taker])
        return pickle.dumps(taker.found)

    found: list[tuple[Mistake, bool]] = pickle.loads(in_a_copy(work))
    return found


def first_run(items: Sequence[pytest.Item]) -> bytes:
    """Every test that passes as things are, in bytes."""
    silence()
    tests = []
    for number, item in enumerate(items):
        calls: set[Place] = set()

        def note(frame: types.FrameType, event: str, _: Any, calls: set[Place] = calls) -> None:
            if event == "call" and (file := frame.f_code.co_filename).startswith(str(PACKAGE)):
                calls.add((file, frame.f_code.co_firstlineno))

        began = time.process_time()
        threading.setprofile(note)  # a server's requests, for example
        sys.setprofile(note)
        good = passes(item)
        sys.setprofile(None)
        if good:
            tests.append(Tested(number, time.process_time() - began, frozenset(calls)))
    return pickle.dumps(tests)


def passes(item: pytest.Item) -> bool:
    """Run one test with its fixtures; one that is skipped passes."""
    with contextlib.suppress(KeyboardInterrupt):
        return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))
    return False


def notices(mistake: Mistake, items: Sequence[pytest.Item], tests: Sequence[Tested]) -> int | None:
    """The number of the first of these tests that fails with this mistake; ``APART`` where another process ran them."""
    file, line = str(PACKAGE / mistake.file), enclosing(mistake, PACKAGE)
    apart = line is None or Path(file).name in IN_WORKERS
    touching = [test for test in tests if ((file, line) in test.calls if not apart else _touches(test, file))]
    if apart:
        return None if passes_apart(mistake, [items[test.number].nodeid for test in touching]) else APART
    module = ["feddc", *Path(mistake.file).with_suffix("").parts]
    importlib.import_module(".".join(module).removesuffix(".__init__"))  # some are imported when they are needed
    swap(mistake, file)
    signal.signal(signal.SIGALRM, lambda *_: os._exit(1))
    for test in touching:
        signal.alarm(PATIENCE + int(10 * test.seconds))
        if not passes(items[test.number]):
            return test.number
    return None


def _touches(test: Tested, file: str) -> bool:
    same = {file, *(str(Path(file).with_name(name)) for name in IN_WORKERS if Path(file).name in IN_WORKERS)}
    return any(place[0] in same for place in test.calls)


def swap(mistake: Mistake, file: str) -> None:
    """Give the functions of this process the mistaken code."""
    code = compile(mistaken(mistake, PACKAGE), file, "exec")
    new: dict[tuple[str, int], list[types.CodeType]] = defaultdict(list)
    stack = [code]
    while stack:
        for inner in stack.pop().co_consts:
            if isinstance(inner, types.CodeType):
                new[inner.co_qualname, inner.co_firstlineno].append(inner)
                stack.append(inner)
    for each in gc.get_objects():
        if type(each) is types.FunctionType and each.__code__.co_filename == file:
            found = new.get((each.__code__.co_qualname, each.__code__.co_firstlineno), [])
            if len(found) == 1:  # two lambdas in one line have one name
                each.__code__ = found[0]


def passes_apart(mistake: Mistake, tests: Sequence[str]) -> bool:
    """Whether these tests pass with a copy of the package that has the mistake."""
    with tempfile.TemporaryDirectory(prefix="feddc-mutant-") as name:
        copy = Path(name) / "feddc"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / mistake.file).write_text(ast.unparse(mistaken(mistake, PACKAGE)))
        limit = f"timeout={PATIENCE}"
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-o", limit, *tests]
        env = {**os.environ, "PYTHONPATH": name, "PYTHONDONTWRITEBYTECODE": "1"}
        ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True).returncode if tests else 0
        return ended in (0, -signal.SIGXCPU)  # all pass, or all did until CPU_SECONDS were over


def silence() -> None:
    """Show nothing of what the tests of this process print."""
    quiet = os.open(os.devnull, os.O_RDWR)
    for file in (0, 1, 2):
        os.dup2(quiet, file)


def begun(work: Callable[[], bool]) -> int:
    """A copy of this process that ends with 1 if ``work`` is true; its number."""
    if process := os.fork():
        return process
    silence()
    signal.signal(signal.SIGXCPU, lambda *_: os._exit(0))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, 2 * CPU_SECONDS))
    code = BROKEN
    try:
        code = int(work())
    finally:
        os._exit(code)


def in_a_copy(work: Callable[[], bytes]) -> bytes:
    """What ``work`` gives in a copy of this process: nothing that it does is seen here."""
    reading, writing = os.pipe()
    if process := os.fork():
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            found = pipe.read()
        os.waitpid(process, 0)
        return found
    os.close(reading)
    try:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(work())
    finally:
        os._exit(0)
