"""Vectors in fewer bytes, both ways: the server and the sites work on with what arrived, as in a simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import feddc
from feddc.algorithms import METHODS as REGISTRY, make_method
from feddc.engine.compress import BLOCK
from tests.flower.test_faults import EVERYONE, changed, grid_of
from tests.flower.test_parity import coordinator, simulated

PLAIN = [method for method in map(make_method, REGISTRY) if getattr(method, "sends_update", True)]
SHORT = {"rounds": 2, "participation": None}


@pytest.mark.parametrize("algorithm", PLAIN, ids=lambda each: type(each).__name__)
def test_flower_equals_the_simulator_with_int8(algorithm: Any, tmp_path: Path) -> None:
    run = coordinator(algorithm, tmp_path, compress="int8", **SHORT)
    records, (expected, simulation) = list(run.run()), simulated(algorithm, compress="int8", **SHORT)
    torch.testing.assert_close(run.progress.server, simulation.server, rtol=1e-4, atol=1e-5)
    assert [(r.bytes_up, r.bytes_down) for r in records] == [(r.bytes_up, r.bytes_down) for r in expected]
    grid: Any = run.members.grid
    sent = [message.content["arrays"] for message in grid.sent[5:]]
    travelled = sum(array.numpy().nbytes for arrays in sent for array in arrays.values())
    assert travelled == sum(record.bytes_down for record in records)


def test_bf16_and_buffers_too(tmp_path: Path) -> None:
    from tests.flower import task

    model = task.make_model_with_buffers
    run = coordinator(feddc.FedDC(), tmp_path, model, compress="bf16", **SHORT)
    records, (expected, simulation) = list(run.run()), simulated(feddc.FedDC(), model, compress="bf16", **SHORT)
    torch.testing.assert_close(run.progress.server.model, simulation.server.model, rtol=1e-3, atol=1e-5)
    assert [(r.bytes_up, r.bytes_down) for r in records] == [(r.bytes_up, r.bytes_down) for r in expected]


def test_what_a_site_sends_is_as_many_bytes_as_the_record_says(tmp_path: Path) -> None:
    run, sizes = coordinator(feddc.FedDC(), tmp_path, compress="int8", rounds=1, **EVERYONE), []

    def look(_: int, reply: Any) -> Any:
        if "round" in reply.content["config"]:
            sizes.append(sum(array.numpy().nbytes for array in reply.content["arrays"].values()))
        return reply

    grid_of(run).tamper = look
    [record] = run.run()
    assert sizes == [83 + 4 * -(-83 // BLOCK)] * 5
    assert record.bytes_up == sum(sizes)


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros(80, np.uint8), "83 numbers as int8 travel in 87 bytes"),
        (np.zeros(87, np.float32), "83 numbers as int8 travel in 87 bytes"),
        (np.full(87, 255, np.uint8), "array 'delta' has NaN or Inf"),
    ],
)
def test_bytes_that_are_no_vector_are_refused(array: Any, sentence: str, tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, compress="int8", rounds=1, **EVERYONE)
    grid_of(run).tamper = lambda client, reply: (
        changed(reply, {"delta": array}) if client == 1 and "round" in reply.content["config"] else reply
    )
    [record] = run.run()
    assert [(each.client, sentence in each.reason) for each in record.rejected] == [(1, True)]


def test_what_it_does_not_go_with(tmp_path: Path) -> None:
    with pytest.raises(feddc.ConfigError, match="compress=int8 cannot be combined with secure"):
        coordinator(feddc.FedDC(), tmp_path, compress="int8", secure="masked", **EVERYONE)
    with pytest.raises(feddc.ConfigError, match="unknown compress 'int9'"):
        coordinator(feddc.FedDC(), tmp_path, compress="int9")
    list(coordinator(feddc.FedDC(), tmp_path, compress="int8", rounds=1).run())
    for other in ("none", "bf16"):
        with pytest.raises(feddc.RunError, match="was begun with compress=int8, not"):
            coordinator(feddc.FedDC(), tmp_path, compress=other)
