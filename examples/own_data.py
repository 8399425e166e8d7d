"""FedDC on tables of your own: one CSV file per client. Copy this file and change the folder.

If the folder does not exist, the script first writes a small example of it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import feddc
from feddc.data import from_csv


def write_example(folder: Path) -> None:
    """Five hospitals, each with patients of its own kind: three measurements and a diagnosis, 0 or 1."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for hospital in range(5):
        x = rng.normal(loc=hospital / 4, size=(100, 3))
        y = (x @ [1.0, -2.0, 1.0] > 0).astype(int)
        lines = [f"{a:.4f},{b:.4f},{c:.4f},{label}" for (a, b, c), label in zip(x, y, strict=True)]
        (folder / f"hospital-{hospital}.csv").write_text("\n".join(["age,pressure,pulse,diagnosis", *lines]) + "\n")


def main(folder: Path) -> None:
    if not folder.exists():
        write_example(folder)
    federation = from_csv(folder, label="diagnosis")
    model = feddc.make_model("fcn:16", federation.shape, federation.classes)
    training = feddc.LocalTraining(epochs=2, batch_size=10)
    result = feddc.train(feddc.FedDC(alpha=0.1), model, federation, rounds=20, training=training)
    print(f"{len(federation)} clients, best accuracy {result.best_accuracy:.1%}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "hospitals"))
