"""float32 and bf16 side by side: ``python -m benchmarks.curves RUNS docs/images/bf16.png``

RUNS is what ``feddc sweep --over precision=float32,bf16 --over seed=0,1 … --out RUNS`` left. Prints a table of the
accuracy in some rounds, a column for each run, and draws all of them.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

from matplotlib.figure import Figure


def main(runs: str, picture: str) -> None:
    found: dict[tuple[str, int], list[float]] = {}
    for file in sorted(Path(runs).glob("*/config.toml")):
        config = tomllib.loads(file.read_text())
        lines = file.with_name("records.jsonl").read_text().splitlines()
        curve = [json.loads(line)["metrics"]["accuracy"] for line in lines]
        found[config.get("precision", "float32"), config.get("seed", 0)] = curve
    curves = dict(sorted(found.items(), key=lambda item: (item[0][0] != "float32", item[0][1])))
    last = min(map(len, curves.values()))
    print("| round | " + " | ".join(f"{kind}, seed {seed}" for kind, seed in curves) + " |")
    print("|---:|" + "---:|" * len(curves))
    for round in sorted({5, 10, 20, 30, 40, 50, last}):
        if round <= last:
            print(f"| {round} | " + " | ".join(f"{100 * curve[round - 1]:.2f}" for curve in curves.values()) + " |")
    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.subplots()
    for (kind, seed), curve in curves.items():
        style = "-" if kind == "float32" else "--"
        rounds = range(1, last + 1)
        axes.plot(rounds, [100 * each for each in curve[:last]], style, color=f"C{seed}", label=f"{kind}, seed {seed}")
    axes.set(xlabel="round", ylabel="accuracy, %", ylim=(90, 99))
    axes.legend()
    figure.savefig(picture, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:])
