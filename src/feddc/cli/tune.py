"""`feddc tune`: choose hyper-parameters on validation data."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import StoppedError, WorkerError, check
from .options import Output, configurations, experiment_options, gather, jobs_option, output_options, typed

if TYPE_CHECKING:
    from ..study.tune import Range, Search


PROCESS = "FEDDC_TUNE_PROCESS"
"""The environment variable with the number of a process of --jobs."""


@click.command()
@click.option("--over", multiple=True, required=True, metavar="KEY=LOW..HIGH", help="an option and its range, or A,B,…")
@click.option("--trials", type=click.IntRange(1), default=30, help="number of settings to try  [default: 30]")
@click.option("--seeds", type=click.IntRange(1), default=1, help="number of seeds for each setting  [default: 1]")
@experiment_options(without="")
@jobs_option
@output_options
def tune(over: tuple[str, ...], trials: int, seeds: int, jobs: int, output: Output, **given: Any) -> None:
    """Search for the best options on validation data.

    For example: feddc tune --over alpha=1e-3..1 --over lr=0.01..0.3 --trials 30

    A tenth of every client's samples is set aside as validation data (--validation), so that nothing is chosen on the
    test set. Poor settings are stopped early. The command can be stopped and repeated with the same --out. At the end
    it prints the command that runs the winner on the test set.
    """
    from ..study.interrupts import Interrupts
    from ..study.sources import Named
    from ..study.tune import Range, Search

    check(not output.show.as_json and not output.show.tensorboard, "--json and --tensorboard cannot be used with tune")
    ranges = [Range.parse(text) for text in over]
    values = gather(given, output.config)
    validation = float(values.get("validation") or 0.1)
    method = str(values.pop("method", "feddc"))
    first = int(values.pop("seed", None) or 0)

    def configure(setting: Any) -> Any:
        merged = {**values, **{key: str(value) for key, value in setting.items()}, "validation": validation}
        [resolved] = configurations(merged | {"evaluate": "server"}, [method])
        return resolved

    folder = output.out or Path("runs/tune")
    search = Search(
        ranges, configure, folder, seeds=range(first, first + seeds), process=int(os.environ.get(PROCESS, "0"))
    )
    if search.process:
        Interrupts.sentence = b""
    say = (lambda _: None) if output.show.quiet else click.echo
    say(
        f"{trials} settings of {', '.join(each.key for each in ranges)}, "
        f"{seeds} seed{'s' * (seeds > 1)} each, in {folder}"
    )
    helpers = [_helper(typed("jobs", "quiet"), folder, i) for i in range(1, jobs)]
    try:
        search.run(Named(output.data_dir), trials, lambda done, line: say(f"{done:>4} of {trials}  {line}"))
        for each in helpers:
            if each.wait() != 0:
                raise WorkerError(f"a process of --jobs ended with exit code {each.returncode}; repeat the command")
    except (StoppedError, KeyboardInterrupt) as error:  # the latter between two rounds
        by = error.signal if isinstance(error, StoppedError) else signal.SIGINT
        if search.process:
            sys.exit(128 + by)  # the process that leads the search says it
        what = f"before all {trials} settings were tried: repeat the command to continue"
        raise StoppedError(by, what) from None
    finally:
        for each in helpers:
            if each.poll() is None:
                each.send_signal(signal.SIGINT)  # it finishes its round and keeps it
        for each in helpers:
            each.wait()
    found = search.found()
    best = ", ".join(f"{key}={_text(value)}" for key, value in found.best.items())
    say(
        f"best of {found.finished} finished and {found.pruned} stopped early: {best}, "
        f"{found.value:.4f} on validation data"
    )
    say(f"picture: {_picture(search, ranges, folder / 'tune.png')}")
    say(f"on the test set: {_winner(found.best, first, seeds)}")


def _helper(typed: str, folder: Path, number: int) -> subprocess.Popen[bytes]:
    """The same search in another process: trials are shared through the folder."""
    words = [*shlex.split(typed)[1:], "--quiet", "--jobs", "1"]
    words += [] if "--out" in words else ["--out", str(folder)]
    environment = {**os.environ, PROCESS: str(number), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "feddc", *words]
    return subprocess.Popen(command, env=environment, process_group=0)  # Ctrl-C reaches only us, and we pass it on


def _winner(best: Any, first: int, seeds: int) -> str:
    """The command that runs the winner: what was typed, without the search, with what was found."""
    chosen = [word for key, value in best.items() for word in (f"--{key.replace('_', '-')}", _text(value))]
    what = typed("over", "trials", "seeds", "jobs", "out", "quiet", "validation", "seed", *best)
    words = shlex.split(what)[2:]
    if seeds == 1:
        return shlex.join(["feddc", "run", *words, *chosen, "--seed", str(first)])
    over = ",".join(str(seed) for seed in range(first, first + seeds))
    return shlex.join(["feddc", "sweep", "--over", f"seed={over}", *words, *chosen])


def _picture(search: Search, ranges: list[Range], path: Path) -> Path:
    """Every setting that was tried against its value; those stopped early below."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    rows = search.table()
    best = search.found().best
    figure = Figure(figsize=(3.2 * len(ranges), 2.8), layout="constrained")
    for i, each in enumerate(ranges):
        axes = figure.add_subplot(1, len(ranges), i + 1)
        done = [(setting[each.key], value) for setting, value in rows if value is not None]
        axes.plot(*zip(*done, strict=True), "o", color="#0072B2", alpha=0.7)
        axes.plot([x for x, _ in done if x == best[each.key]][:1], [search.found().value], "*", color="#D55E00", ms=13)
        early = [setting[each.key] for setting, value in rows if value is None]
        low = min(value for _, value in done)
        axes.plot(early, [low] * len(early), "x", color="#999999")
        axes.set_xlabel(each.key)
        axes.set_ylabel("validation score" if i == 0 else "")
        if each.log:
            axes.set_xscale("log")
            axes.set_xlim(each.low / 1.3, each.high * 1.3)  # all that was searched, so that its powers of ten are named
            axes.xaxis.set_minor_formatter(NullFormatter())
    figure.suptitle("each point a setting; ★ the best, × stopped early", fontsize=8)
    figure.savefig(path, dpi=150)
    return path


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
