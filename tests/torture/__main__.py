"""`make torture`: the long version of what the test suite does briefly."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--kills", type=int, default=0, help="processes to kill")
    parser.add_argument("--executors", default="in-process,vectorised", help="executors of the runs that are killed")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="feddc-torture-") as name:
        if given.kills:
            from .kills import kill_runs

            began = time.monotonic()
            tally = kill_runs(given.kills, Path(name) / "kills", given.seed, tuple(given.executors.split(",")))
            print(f"{tally} in {time.monotonic() - began:.0f} s", flush=True)
            if tally.different or tally.faults:
                failed = True
                for log in Path(name).glob("kills/*/log"):
                    print(log.read_text()[-2000:])
    sys.exit(failed)


if __name__ == "__main__":
    main()
