"""What the drift diagnostics cost: python benchmarks/diagnostics.py [--data mnist …any option of `feddc run`]

Times what the meter does inside the rounds of one run: its share of each round's seconds, and the median of these
shares, so that a busy machine blurs the result less than comparing two runs would.
"""

from __future__ import annotations

import statistics
import sys
import time

from feddc.engine.drift import DriftMeter
from feddc.study.config import resolve
from feddc.study.sources import Named

spent = {"wall": 0.0, "processor": 0.0}


def timed(name: str) -> None:
    """Add up what a method of the meter takes."""
    original = getattr(DriftMeter, name)

    def wrapper(*args: object) -> object:
        wall, processor = time.perf_counter(), time.thread_time()
        try:
            return original(*args)
        finally:
            spent["wall"] += time.perf_counter() - wall
            spent["processor"] += time.thread_time() - processor

    setattr(DriftMeter, name, wrapper)


def main(options: list[str]) -> None:
    """Run, and print the share."""
    values = dict(zip((each[2:].replace("-", "_") for each in options[::2]), options[1::2], strict=True))
    simulation = Named().simulation(resolve({"rounds": 50, **values}))
    timed("add")
    timed("result")
    shares: dict[str, list[float]] = {key: [] for key in spent}
    seconds = []
    for record in simulation.run():
        if record.round > 1:  # the first warms up
            seconds.append(record.seconds)
            for key in spent:
                shares[key].append(100 * spent[key] / record.seconds)
        spent.update(wall=0.0, processor=0.0)
    wall, processor = (statistics.median(shares[key]) for key in ("wall", "processor"))
    print(f"{simulation.executor_reason}")
    print(f"{len(seconds)} rounds of {1e3 * statistics.median(seconds):.0f} ms (median); diagnostics:")
    print(f"{wall:.2f} % of a round by the clock, {processor:.2f} % in processor time")


if __name__ == "__main__":
    main(sys.argv[1:])
