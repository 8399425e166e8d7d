"""Damage run directories: flip bytes, cut, remove or swap files. Each is continued exactly, or refused in words."""

from __future__ import annotations

import contextlib
import io
import random
import shutil
from collections import Counter
from pathlib import Path

from feddc.cli import main

from .kills import outcome

SETTING = (
    "--rounds 7 --clients 6 --epochs 1 --batch-size 64 --model fcn:4 --cohort-size 2 --executor in-process --quiet"
)


class EndedError(Exception):
    """Stands for a kill."""


def command(*args: str) -> tuple[int, str]:
    """Run a command in this process: its exit code, and what it said on the error stream."""
    err = io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
        try:
            main(list(args))
        except SystemExit as ended:
            return int(ended.code or 0), err.getvalue()
    raise AssertionError("unreachable: main always exits")


def prepare(folder: Path) -> tuple[Path, Path]:
    """A run that was left alone, and one of the same that was ended after round 5 with checkpoints of 3 and 4."""
    from unittest import mock

    from feddc.study.rundir import RunDir

    whole, ended = folder / "whole", folder / "ended"
    assert command("run", *SETTING.split(), "--checkpoint", "1", "--out", str(whole)) == (0, "")
    write = RunDir.checkpoint

    def until(self: RunDir, *args: object, **options: object) -> None:
        if self.simulation.round == 5:
            raise EndedError
        write(self, *args, **options)  # type: ignore[arg-type]

    with mock.patch.object(RunDir, "checkpoint", until), contextlib.suppress(EndedError):
        command("run", *SETTING.split(), "--checkpoint", "1", "--out", str(ended))
    return whole, ended


def harm(run: Path, rng: random.Random) -> str:
    """Damage one file of a run directory; what was done."""
    file = rng.choice(sorted(path for path in run.rglob("*") if path.is_file()))
    how = rng.choice(["flip", "flip", "flip", "cut", "remove", "empty", "grow", "swap"])
    content = bytearray(file.read_bytes())
    if how == "flip" and content:
        for _ in range(rng.choice([1, 1, 4])):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif how == "cut" and content:
        del content[rng.randrange(len(content)) :]
    elif how == "grow":
        content += rng.randbytes(rng.choice([1, 100]))
    elif how == "swap":
        content = bytearray(rng.choice(sorted(p for p in run.rglob("*") if p.is_file())).read_bytes())
    elif how == "empty":
        content.clear()
    if how == "remove":
        file.unlink()
    else:
        file.write_bytes(content)
    return f"{how} {file.relative_to(run)}"


def damage_runs(count: int, folder: Path, seed: int) -> Counter[str]:
    """Damage so many copies of an unfinished run and try to go on; how often it went on, and how often it refused."""
    rng, tally = random.Random(seed), Counter[str]()
    whole, ended = prepare(folder)
    for i in range(count):
        run = folder / "copy"
        shutil.copytree(ended, run)
        done = [harm(run, rng) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
        code, said = command("resume", str(run), "--quiet")
        note = (i, done, code, said)
        if code == 0 and "continuing after" not in said and "starts again" not in said:
            assert "is not" not in said, note  # nothing was unfinished any more: it was made to look ended, or gone
            tally["nothing to do"] += 1
        elif code == 0:
            assert outcome(run) == outcome(whole), note
            tally["fell back" if "is damaged: " in said else "went on"] += 1
            tally["of which from round 1"] += "starts again" in said
        else:
            assert code == 2, note
            assert said.splitlines()[-1].startswith("feddc: "), note
            assert "Traceback" not in said, note
            tally["refused"] += 1
        shutil.rmtree(run)
    return tally
