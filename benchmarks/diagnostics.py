"""What the drift diagnostics cost: python benchmarks/diagnostics.py [--data mnist …any option of `feddc run`]

Times what the meter does inside the rounds of one run, so that a busy machine blurs the result less than comparing
two runs would.
"""

from __future__ import annotations

import sys
import time

from feddc.engine.drift import DriftMeter
from feddc.experiment.config import resolve
from feddc.experiment.runner import prepare

spent = 0.0


def timed(name: str) -> None:
    original = getattr(DriftMeter, name)

    def wrapper(*args: object) -> object:
        global spent
        began = time.perf_counter()
        try:
            return original(*args)
        finally:
            spent += time.perf_counter() - began

    setattr(DriftMeter, name, wrapper)


def main(options: list[str]) -> None:
    global spent
    values = dict(zip((each[2:].replace("-", "_") for each in options[::2]), options[1::2], strict=True))
    simulation = prepare(resolve({"rounds": 20, **values}))
    timed("add")
    timed("result")
    rounds = simulation.run()
    next(rounds)  # warms up
    spent = 0.0
    records = list(rounds)
    seconds = sum(record.seconds for record in records)
    share = spent / seconds
    print(f"{simulation.executor_reason}")
    print(
        f"{len(records)} rounds: {1e3 * seconds / len(records):.1f} ms a round, diagnostics {100 * share:.2f} % of it"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
