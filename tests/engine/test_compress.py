"""Compressed transport: rounding is fair and keyed, sums stay equal, and what is counted is what would travel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import feddc
from feddc.algorithms import METHODS, make_method
from feddc.engine.compress import BLOCK, Compression, decode, encode, packed_bytes
from tests.conftest import FAST, make_federation

KINDS = ["bf16", "int8"]


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rounded(kind: Any, vector: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    """The vector as it arrives."""
    return decode(kind, encode(kind, vector, draw), len(vector), vector.dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_rounding_is_right_on_average_and_near_every_time(kind: Any) -> None:
    vector = torch.cat([torch.randn(300, generator=rng()), 1e-3 * torch.randn(300, generator=rng(1)), torch.zeros(7)])
    many = torch.stack([rounded(kind, vector, rng(i)) for i in range(400)])
    blocks = [vector[i : i + BLOCK].abs().max() / 127 for i in range(0, len(vector), BLOCK)]
    step = torch.cat([each.expand(BLOCK) for each in blocks])[: len(vector)]
    if kind == "bf16":
        step = vector.abs() / 2**7
    assert ((many - vector).abs() <= step * 1.001 + 1e-12).all()
    assert ((many.mean(dim=0) - vector).abs() <= 4 * step / 400**0.5 + 1e-12).all()


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_rounded_is_not_rounded_again(kind: Any) -> None:
    """It lies on the grid: what travels is exactly what both sides hold."""
    once = rounded(kind, torch.randn(700, generator=rng()), rng(1))
    torch.testing.assert_close(rounded(kind, once, rng(2)), once, rtol=1e-6, atol=0 if kind == "bf16" else 1e-2)
    if kind == "bf16":
        assert torch.equal(once.bfloat16().float(), once)


@pytest.mark.parametrize("draw", [0.0, 1 - 2**-24])
def test_int8_never_exceeds_the_largest_number_of_a_block(draw: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is drawn, and however a quotient is rounded."""
    monkeypatch.setattr(torch, "rand", lambda shape, **_: torch.full(shape, draw))
    for size in torch.logspace(-3, 0, 200).tolist():
        vector = torch.tensor([size, -size, 0.0])
        arrived = rounded("int8", vector, rng())
        assert float(arrived.abs().max()) == pytest.approx(size)
        assert arrived.tolist() == pytest.approx(vector.tolist(), abs=size / 100)


def test_bf16_rounds_down_what_is_drawn_to_stay() -> None:
    """The largest lower half there is stays below the next number in one draw of 65536."""
    bits = torch.full((2**20,), 0x3F80FFFF, dtype=torch.int32)
    arrived = rounded("bf16", bits.view(torch.float32), rng())
    assert set(arrived.tolist()) == {1.0, 1.0078125}
    assert 1 <= int((arrived == 1).sum()) <= 48


def test_every_client_and_round_is_rounded_by_draws_of_its_own() -> None:
    vector, both = torch.randn(64, generator=rng()), Compression("bf16", seed=3)
    updates = {both.pack_update(vector, client, round).tobytes() for client in range(20) for round in range(1, 11)}
    assert len(updates) == 200


def test_bytes() -> None:
    vector = torch.zeros(1000)
    assert [packed_bytes(kind, vector) for kind in ("none", "bf16", "int8")] == [4000, 2000, 1016]  # type: ignore[arg-type]
    assert [packed_bytes("int8", vector[:size]) for size in (0, 1, 256, 257)] == [0, 5, 260, 265]


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 1000])
@pytest.mark.parametrize("kind", ["none", *KINDS])
def test_what_travels_has_the_bytes_that_are_counted_and_gives_the_simulators_vector(kind: Any, size: int) -> None:
    vector = torch.randn(size, generator=rng())
    packed = encode(kind, vector, rng(1))
    assert packed.dtype == np.uint8
    assert packed.nbytes == packed_bytes(kind, vector)
    arrived = decode(kind, np.frombuffer(packed.tobytes(), dtype=np.uint8), size)
    assert torch.equal(arrived, rounded(kind, vector, rng(1)))


@pytest.mark.parametrize("kind", ["none", *KINDS])
def test_both_ends_of_a_wire_hold_what_the_simulator_computes(kind: Any) -> None:
    """The server packs a broadcast, a client its update; the other side has the bytes and the model's size."""
    server, client = Compression(kind, seed=3), Compression(kind, seed=3)
    sent = feddc.FedDC().broadcast(feddc.FedDC().init_server(torch.randn(700, generator=rng())))
    wire = [part.tobytes() for part in server.pack_sent(sent, round=4)]
    arrived = [client.unpack(np.frombuffer(part, dtype=np.uint8), torch.zeros(700)) for part in wire]
    assert all(map(torch.equal, arrived, server.down(sent, round=4)))
    delta = torch.randn(2, 700, generator=rng(1))
    up = client.pack_update(delta[1], client=9, round=4)
    assert torch.equal(server.unpack(up, delta[1]), server.up(delta, [5, 9], round=4)[1])
    assert len(wire[0]) + up.nbytes == 2 * server.nbytes([delta[0]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_arrives_as_such(kind: Any, bad: float) -> None:
    vector = torch.randn(600, generator=rng())
    vector[300] = bad
    arrived = rounded(kind, vector, rng(1))
    assert not torch.isfinite(arrived[300])
    assert kind == "bf16" or torch.isnan(arrived[BLOCK : 2 * BLOCK]).all()  # the whole block, which says so
    assert torch.isfinite(torch.cat([arrived[:BLOCK], arrived[2 * BLOCK :]])).all()


def test_bytes_that_cannot_be_the_vector_are_refused() -> None:
    packed = encode("int8", torch.randn(300), rng())
    for wrong, size in ((packed, 301), (packed[:-1], 300), (packed.view(np.int8), 300)):
        with pytest.raises(feddc.DataError, match=rf"{size} numbers as int8 travel in {size + 8} bytes"):
            decode("int8", wrong, size)


def simulation(algorithm: Any, compress: Any, sizes: list[int], **options: Any) -> feddc.Simulation:
    torch.manual_seed(0)
    mask = np.random.default_rng(0).random((6, len(sizes))) < 0.6
    mask[:, 0] = True
    found = feddc.Simulation(
        algorithm, nn.Linear(6, 3), make_federation(sizes), rounds=6, cohorts=mask, training=FAST, compress=compress,
        **options,
    )  # fmt: skip
    found.records = list(found.run())  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("compress", KINDS)
@pytest.mark.parametrize(
    "algorithm", [feddc.FedDC(), feddc.FedDyn(), feddc.Scaffold(), feddc.Scaffold(form="feddc")], ids=repr
)
def test_the_servers_sums_stay_those_of_the_clients(algorithm: Any, compress: str) -> None:
    found = simulation(algorithm, compress, [5, 20, 11, 8])
    state, server = found.store.gather(range(4)), found.server
    if hasattr(server, "drift"):
        torch.testing.assert_close(server.drift, state.drift.mean(dim=0), rtol=1e-5, atol=1e-6)
    if hasattr(server, "variate"):
        weights = 1.0 if getattr(algorithm, "form", "") == "original" else found.weights
        torch.testing.assert_close(server.variate, (weights * state.variate).mean(dim=0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_with_int8(name: str) -> None:
    method = make_method(name)
    if not getattr(method, "sends_update", True):
        return
    plain, small = (simulation(method, kind, [20, 25, 30]).server.model for kind in ("none", "int8"))
    assert torch.linalg.vector_norm(plain - small) < 0.2 * torch.linalg.vector_norm(plain)
    assert not torch.equal(plain, small)


def test_bytes_of_a_round_are_those_that_travel() -> None:
    for compress, size in (("none", 84), ("bf16", 42), ("int8", 25)):
        record = simulation(feddc.FedDC(), compress, [5, 20, 11, 8]).records[0]  # type: ignore[attr-defined]
        k = len(record.participants)
        assert (record.bytes_up, record.bytes_down) == (k * size, k * 2 * size)


def test_executors_agree() -> None:
    plain = simulation(feddc.FedDC(), "int8", [5, 20, 11, 8], executor="in-process").server
    spread = simulation(feddc.FedDC(), "int8", [5, 20, 11, 8], executor="workers", workers=2).server
    assert all(map(torch.equal, plain[:3], spread[:3]))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"compress": "int4"}, "unknown compress 'int4'"),
        ({"compress": "int8", "privacy": "central:clip=1:noise=1"}, "compress=int8 cannot be combined with privacy"),
        ({"compress": "int8", "secure": "simulated"}, "compress=int8 cannot be combined with secure"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any], sentence: str, model: nn.Module) -> None:
    with pytest.raises(feddc.ConfigError, match=sentence):
        feddc.Simulation(feddc.FedAvg(), model, make_federation([9, 9]), rounds=1, **options)
    with pytest.raises(feddc.ConfigError, match="sends its update unchanged"):
        feddc.Simulation(feddc.FedInit(), model, make_federation([9, 9]), rounds=1, compress="int8")
