"""Seconds a round of a federation of real processes on this machine, beside the same rounds in one process.

    python -m benchmarks.federation resnet18                    ResNet18, three sites of 100 images each
    python -m benchmarks.federation digits                      a small network, three sites
    python -m benchmarks.federation digits --plain              with Flower's own flower-supernode instead of ours
    python -m benchmarks.federation resnet18 --database         the SuperLink's state on disk instead of in memory
    python -m benchmarks.federation resnet18 --floor            also Flower alone: the same arrays, and nobody trains

It uses 127.0.0.1 only, and ends every process that it has started. The first round, in which processes import and sites
load their data, is not counted; a line has the median of the others.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from statistics import median
from typing import Any

import torch

import feddc
from feddc.flower.local import LocalFederation
from feddc.flower.new import write_app

SITES = 3
TASKS = {
    "resnet18": """
import torch
import feddc

def load_client(node):
    draw = torch.Generator().manual_seed(int(node["partition-id"]))
    return torch.randn(100, 3, 32, 32, generator=draw), torch.randint(0, 10, (100,), generator=draw)

def make_model():
    return feddc.make_model("resnet18", (3, 32, 32), 10)
""",
    "digits": """
import feddc

def load_client(node):
    return feddc.load("digits", clients=3, split="dirichlet:0.3").client_samples(int(node["partition-id"]))

def make_model():
    return feddc.make_model("fcn:100", (64,), 10)
""",
}
SERVER = """
from feddc.flower import server_app
app = server_app("feddc", "timed.task:make_model")
"""

FLOOR_CLIENT = """
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp
app = ClientApp()

@app.train()
def train(message, context):
    first = next(iter(message.content["arrays"].items()))
    return Message(RecordDict({"arrays": ArrayRecord(dict([first]))}), reply_to=message)
"""
FLOOR_SERVER = """
import json
import os
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MessageType, RecordDict
from flwr.serverapp import ServerApp
app = ServerApp()

@app.main()
def main(grid, context):
    place = Path(os.environ["FLWR_HOME"]) / "feddc" / "timed" / "server"
    place.mkdir(parents=True)
    while len(nodes := list(grid.get_node_ids())) < {sites}:
        time.sleep(0.2)
    for round in range(context.run_config["rounds"]):
        began = time.perf_counter()
        sent = {{name: np.random.rand({size}).astype(np.float32) for name in ("model", "variate")}}
        waiting = set()
        for node in nodes:
            content = RecordDict({{"arrays": ArrayRecord({{name: Array(array) for name, array in sent.items()}})}})
            waiting |= set(grid.push_messages([Message(content, node, MessageType.TRAIN)]))
        while waiting:
            time.sleep(0.2)
            waiting -= {{each.metadata.reply_to_message_id for each in grid.pull_messages(list(waiting))}}
        moved = {{"bytes_down": {sites} * 8 * {size}, "bytes_up": {sites} * 4 * {size}}}
        with (place / "records.jsonl").open("a") as file:
            file.write(json.dumps({{"seconds": time.perf_counter() - began, **moved}}) + "\\n")
"""


def simulated(name: str, rounds: int, compress: str) -> list[float]:
    """The same rounds in this process, one client after the other on one thread: ``executor="in-process"``."""
    space: dict[str, Any] = {}
    exec(TASKS[name], space)
    parts = [space["load_client"]({"partition-id": site}) for site in range(SITES)]
    x, y = (torch.cat(column) for column in zip(*parts, strict=True))
    federation = feddc.Federation.from_arrays(x, y, sizes=[len(labels) for _, labels in parts])
    training = feddc.LocalTraining(epochs=1, batch_size=50)
    options: dict[str, Any] = {"rounds": rounds, "training": training, "executor": "in-process", "compress": compress}
    return [each.seconds for each in feddc.simulate(feddc.FedDC(), space["make_model"](), federation, **options)]


def federated(
    name: str, rounds: int, compress: str, folder: Path, plain: bool, floor: bool = False, database: bool = False
) -> list[dict[str, Any]]:
    """The records of a run of real processes; with ``floor`` of one that only moves the arrays of such rounds."""
    app = folder / "timed"
    write_app(app)
    (app / "timed" / "task.py").write_text(TASKS[name])
    (app / "timed" / "server.py").write_text(SERVER)
    if floor:
        space: dict[str, Any] = {}
        exec(TASKS[name], space)
        size = sum(each.numel() for each in space["make_model"]().parameters())
        (app / "timed" / "client.py").write_text(FLOOR_CLIENT)
        (app / "timed" / "server.py").write_text(FLOOR_SERVER.format(sites=SITES, size=size))
    with LocalFederation(folder / "federation", SITES, warm=not plain, database=database) as federation:
        options = f'rounds={rounds} epochs=1 batch-size=50 method="feddc" compress="{compress}" test-sites=false'
        command = ["flwr", "run", str(app), "federation", "--stream", "--run-config", options]
        subprocess.run(command, env=federation.environment, check=True, stdout=subprocess.DEVNULL)
        records = federation.home / "feddc" / "timed" / "server" / "records.jsonl"
        return [json.loads(line) for line in records.read_text().splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=sorted(TASKS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compress", nargs="+", default=["none", "int8"])
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--floor", action="store_true")
    parser.add_argument("--database", action="store_true", help="the SuperLink keeps its state on disk")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through the end of the federation's processes
    print("| what | seconds a round | MB up + down | times the simulation |\n|---|---|---|---|")
    if given.floor:
        with tempfile.TemporaryDirectory() as place, redirect_stdout(sys.stderr):
            records = federated(
                given.workload, given.rounds, "none", Path(place), given.plain, floor=True, database=given.database
            )
        seconds = median(each["seconds"] for each in records[1:])
        moved = (records[-1]["bytes_up"] + records[-1]["bytes_down"]) / 1e6
        print(
            f"| Flower alone, {SITES} sites, the same arrays, nobody trains | {seconds:.2f} | {moved:.1f} | – |",
            flush=True,
        )
    for compress in given.compress:
        alone = median(simulated(given.workload, given.rounds, compress)[1:])
        print(f"| in one process, compress={compress} | {alone:.2f} | – | 1 |", flush=True)
        with tempfile.TemporaryDirectory() as place, redirect_stdout(sys.stderr):
            records = federated(
                given.workload, given.rounds, compress, Path(place), given.plain, database=given.database
            )
        seconds = median(each["seconds"] for each in records[1:])
        moved = (records[-1]["bytes_up"] + records[-1]["bytes_down"]) / 1e6
        what = f"{SITES} sites over Flower{', cold nodes' * given.plain}, compress={compress}"
        print(f"| {what} | {seconds:.2f} | {moved:.1f} | {seconds / alone:.2f} |", flush=True)


if __name__ == "__main__":
    main()
