"""`make torture`: the long version of what the test suite does briefly. Ends with exit code 1 if anything was lost."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--runs", type=int, default=0, help="runs to kill, over all methods and executors in turn")
    parser.add_argument("--kills", type=int, default=6, help="how often to kill each")
    parser.add_argument("--executors", default="in-process,vectorised,workers", help="executors of the runs to kill")
    parser.add_argument("--inputs", type=int, default=0, help="configurations to try")
    parser.add_argument("--damaged", type=int, default=0, help="run directories to damage")
    parser.add_argument("--cost", action="store_true", help="measure what checkpoints cost")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="feddc-torture-") as name:
        sys.exit(_torture(given, Path(name)))


def _torture(given: argparse.Namespace, folder: Path) -> bool:
    failed = False
    if given.runs:  # first: it forks, and wants a process that has started no threads
        from .kills import kill_runs

        began = time.monotonic()
        tally = kill_runs(given.runs, given.kills, folder / "kills", given.seed, given.executors.split(","))
        print(f"{tally} in {time.monotonic() - began:.0f} s", flush=True)
        failed = bool(tally.different or tally.faults)
        for log in folder.glob("kills/*/log") if failed else ():
            print(f"{log.parent.name}: {log.read_text()[-1000:]}")
    if given.inputs:
        from .inputs import try_inputs

        began = time.monotonic()
        print(f"configurations: {dict(try_inputs(given.inputs, given.seed))} in {time.monotonic() - began:.0f} s")
    if given.damaged:
        from .damage import damage_runs

        began = time.monotonic()
        found = damage_runs(given.damaged, folder / "damaged", given.seed)
        print(f"damaged directories: {dict(found)} in {time.monotonic() - began:.0f} s", flush=True)
    if given.cost:
        from .cost import costs

        for line in costs(folder / "cost"):
            print(line, flush=True)
    return failed


if __name__ == "__main__":
    main()
