"""What checkpoints cost: their share of the run's time, and what they write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from feddc.study.checkpoint import Checkpoints

from .damage import command

SETTINGS = {
    "feddc, 20 clients, 7510 parameters": "--rounds 3000",
    "feddc, 100 clients, 55210 parameters": "--clients 100 --model fcn:200:200 --rounds 800",
    "feddc, 100 clients, 150010 parameters": "--clients 100 --model fcn:2000 --rounds 800",
    "fedavg, 100 clients, 150010 parameters": "--clients 100 --model fcn:2000 --rounds 300 --method fedavg",
}


def costs(folder: Path) -> Iterator[str]:
    """A line for each setting, each a run of `feddc run` with its default checkpoints."""
    write = Checkpoints.write
    for i, (name, setting) in enumerate(SETTINGS.items()):
        written: list[int] = []

        def counting(self: Checkpoints, *args: object, written: list[int] = written) -> None:
            before = {path.name for path in self.folder.glob("*")}
            write(self, *args)  # type: ignore[arg-type]
            written.append(sum(path.stat().st_size for path in self.folder.iterdir() if path.name not in before))

        out = folder / str(i)
        with mock.patch.object(Checkpoints, "write", counting):
            assert command("run", *setting.split(), "--target", "1", "--quiet", "--out", str(out)) == (0, "")
        summary = json.loads((out / "summary.json").read_text())
        seconds, spent = summary["seconds"], summary["checkpoint_seconds"]
        yield (
            f"{name}: {summary['checkpoints']} checkpoints in {seconds:.1f} s, "
            f"{100 * spent / (seconds + spent):.2f} % of the time, "
            f"{1e-6 * sum(written) / max(1, len(written)):.2f} MB each"
        )
