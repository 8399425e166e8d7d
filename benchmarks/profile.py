"""Where the time of a local step goes, by operation, on one core: ``python -m benchmarks.profile [fcn cnn]``."""

from __future__ import annotations

import sys
import time
from collections import Counter

import torch
from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile

from feddc.engine.local.batches import plan
from feddc.engine.local.kernel import Job, Start, train_client
from feddc.models import FlatModel
from feddc.types import Correction

from .workloads import WORKLOADS

WHAT = {
    "aten::addmm": "matrix products",
    "aten::addmm_": "matrix products",
    "aten::mm": "matrix products",
    "aten::mkldnn_convolution": "convolutions, forward",
    "aten::convolution_backward": "convolutions, backward",
    "aten::max_pool2d_with_indices": "pooling",
    "aten::max_pool2d_with_indices_backward": "pooling",
    "aten::fill_": "pooling",
    "aten::linalg_vector_norm": "correction, clip, step",
    "aten::addr_": "correction, clip, step",
    "aten::add": "correction, clip, step",
    "aten::index_select": "fetching and augmenting the batch",
    "aten::gather": "fetching and augmenting the batch",
    "aten::copy_": "fetching and augmenting the batch",
}


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    for name in names:
        workload = WORKLOADS[name](False)
        job = Job(workload.model, workload.federation, workload.training, 0, None)
        model = FlatModel(workload.model)
        start = Start(1, model.params.clone(), model.buffers())
        correction = Correction(torch.zeros_like(model.params), prox=0.1)

        def client(number: int) -> float:
            began = time.perf_counter()
            train_client(job, model, number, start, correction)  # noqa: B023
            return time.perf_counter() - began

        client(0)
        steps = len(plan(job, start.round, 1))
        plain = min(client(1) for _ in range(3)) / steps
        with profile(activities=[ProfilerActivity.CPU]) as watched:
            client(1)
        spent: Counter[str] = Counter()
        for event in watched.key_averages():
            spent[WHAT.get(event.key, "all other operations")] += event.self_cpu_time_total / steps
        table = Table(title=f"{name}: {plain * 1e6:.0f} µs a step; with the profiler on:", title_justify="left")
        table.add_column("")
        table.add_column("µs a step", justify="right")
        for what, micros in spent.most_common():
            table.add_row(what, f"{micros:.0f}")
        Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1:] or ["fcn", "cnn"])
