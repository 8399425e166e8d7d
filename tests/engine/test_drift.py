"""Drift as it is measured: against the plain definition, over parts, through JSON, and switched off."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

import feddc
from feddc.engine.drift import Drift, DriftMeter
from feddc.engine.growth import Growth, GrowthWatch, growth_sentence, warning
from tests.conftest import FAST, make_federation


class Keeps(NamedTuple):
    drift: Tensor


class KeepsNothing(NamedTuple):
    pass


def test_numbers_are_those_of_the_definition() -> None:
    generator = torch.Generator().manual_seed(0)
    delta, drift = torch.randn(5, 40, generator=generator), torch.randn(5, 40, generator=generator)
    meter = DriftMeter()
    for rows in ([0, 1], [2], [3, 4]):  # in parts, as a large cohort comes
        meter.add(delta[rows], Keeps(drift[rows]), Keeps(drift[rows] + delta[rows]))
    found = meter.result()
    assert found is not None
    assert found.drift is not None
    assert found.update == pytest.approx(delta.norm(dim=1).tolist(), rel=1e-5)
    assert found.drift == pytest.approx(drift.norm(dim=1).tolist(), rel=1e-5)
    assert found.gap == pytest.approx((delta + drift).norm(dim=1).tolist(), rel=1e-5)
    pairs = [torch.cosine_similarity(delta[i], delta[j], dim=0) for i, j in itertools.combinations(range(5), 2)]
    assert found.cosine == pytest.approx(float(sum(pairs)) / len(pairs), abs=1e-5)


def test_without_a_drift_the_gap_is_the_update() -> None:
    meter = DriftMeter()
    meter.add(torch.tensor([[3.0, 4.0], [3.0, 4.0]]), KeepsNothing(), KeepsNothing())
    assert meter.result() == Drift(update=(5.0, 5.0), gap=(5.0, 5.0), drift=None, cosine=1.0)


def test_a_pair_needs_two_clients_that_moved() -> None:
    meter = DriftMeter()
    meter.add(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), KeepsNothing(), KeepsNothing())
    found = meter.result()
    assert found is not None
    assert found.update == (5.0, 0.0)
    assert found.cosine is None
    assert DriftMeter().result() is None


@pytest.mark.parametrize("size", [1.0, 0.01])
def test_opposite_clients_have_cosine_minus_one(size: float) -> None:
    meter = DriftMeter()
    meter.add(size * torch.tensor([[1.0, 2.0], [-2.0, -4.0], [0.0, 0.0]]), KeepsNothing(), KeepsNothing())
    found = meter.result()
    assert found is not None
    assert found.cosine == pytest.approx(-1, abs=1e-6)


def test_a_clients_gap_is_its_drift_the_next_time(federation: feddc.Federation, model: nn.Module) -> None:
    """For methods whose drift adds up: h ← h + Δ, and the gap is ‖Δ + h‖."""
    records = list(feddc.simulate(feddc.FedDC(), model, federation, rounds=6, participation=0.5, training=FAST))
    gaps: dict[int, float] = {}
    for record in records:
        assert record.drift is not None
        assert record.drift.drift is not None
        for client, drift, gap in zip(record.participants, record.drift.drift, record.drift.gap, strict=True):
            assert drift == pytest.approx(gaps.get(client, 0.0), rel=1e-4)
            gaps[client] = gap
    assert len(gaps) == len(federation)


@pytest.mark.parametrize("method", [feddc.FedAvg(), feddc.Scaffold()])
def test_methods_without_a_drift_say_so(method: feddc.FedAvg, federation: feddc.Federation, model: nn.Module) -> None:
    [record] = feddc.simulate(method, model, federation, rounds=1, training=FAST)
    assert record.drift is not None
    assert record.drift.drift is None
    assert record.drift.gap == record.drift.update
    assert all(math.isfinite(each) for each in record.drift.update)


def test_looking_changes_nothing(federation: feddc.Federation, model: nn.Module) -> None:
    runs = [
        feddc.train(feddc.FedDC(), model, federation, rounds=3, training=FAST, diagnostics=on) for on in (True, False)
    ]
    assert [r.accuracy for r in runs[0].records] == [r.accuracy for r in runs[1].records]
    for one, two in zip(runs[0].model.parameters(), runs[1].model.parameters(), strict=True):
        assert torch.equal(one, two)
    assert all(record.drift is None for record in runs[1].records)


def test_it_survives_json() -> None:
    drift = Drift((1.0, 2.0), (3.0, 4.0), None, 0.5)
    assert Drift.from_json(json.loads(json.dumps(dataclasses.asdict(drift)))) == drift


def unbalanced(steps: str) -> list[feddc.Record]:
    """A client with 2.6 times the mean number of samples: with the nominal K its variate is multiplied by −1.6."""
    torch.manual_seed(0)
    training = feddc.LocalTraining(epochs=1, batch_size=1, lr=0.001, lr_decay=1.0, weight_decay=0.0, clip_norm=None)
    method = feddc.FedDC(alpha=0.1, steps=steps)  # type: ignore[arg-type]
    federation = make_federation([4, 4, 4, 4, 40])
    return list(feddc.simulate(method, nn.Linear(6, 3), federation, rounds=16, training=training))


def test_a_client_that_grows_without_bound_is_reported() -> None:
    records = unbalanced("nominal")
    found = warning(records, "feddc:steps=nominal:alpha=0.1")
    assert found is not None
    assert " of client 4 grows without bound, from " in found
    assert found.endswith("by round 8: try steps=own, a larger alpha, a smaller learning rate or fewer local epochs")
    assert warning(records[:7]) is None
    assert warning(unbalanced("own")) is None


@pytest.mark.parametrize(("rate", "grows"), [(1.0, False), (1.3, True)])
def test_growth_in_proportion_to_rounds_is_not_reported(rate: float, grows: bool) -> None:
    norms = [t if rate == 1 else rate**t for t in range(1, 60)]
    drifts = [Drift((0.0,), (norm,), (0.0,)) for norm in norms]
    records = [feddc.Record(t, {}, (3,), 0, 0, 0.0, drift=drift) for t, drift in enumerate(drifts, 1)]
    assert (warning(records) is not None) == grows


@pytest.mark.parametrize(
    ("norms", "grown"),
    [
        ([0.1, 0.1, 0.1, 0.2, 0.3, 0.3, 0.3, 0.7], (0.2, 0.7)),
        ([0.1, 0.1, 0.1, 0.2, 0.3, 0.3, 0.3, 0.6], None),  # three times as much is still no alarm
        ([0.1, 0.1, 0.1, 0.2, 0.7, 0.7, 0.7], None),  # too few rounds to tell
        ([0.9, 0.1, 0.1, 0.1, 0.7, 0.7, 0.7, 2.8], (0.9, 2.8)),
        ([0.0, 0.0, 0.0, 0.0, 0.7, 0.7, 0.7, 0.7], None),  # nothing to compare with
    ],
)
def test_the_halves_of_a_clients_rounds_are_compared(norms: list[float], grown: tuple[float, float] | None) -> None:
    watch = GrowthWatch()
    drifts = [Drift((0.0,), (norm,), (0.0,)) for norm in norms]
    found = [watch.add(feddc.Record(t, {}, (3,), 0, 0, 0.0, drift=drift)) for t, drift in enumerate(drifts, 1)]
    assert found[:-1] == [None] * (len(norms) - 1)
    assert found[-1] == (None if grown is None else Growth("drift", 3, 8, *grown))


def test_of_several_clients_the_one_that_grew_most_is_named() -> None:
    watch = GrowthWatch()
    gaps = [(10.0, 1.0, 10.0)] * 7 + [(40.0, 5.0, 20.0)]
    drifts = [Drift((0.0,) * 3, gap, (0.0,) * 3) for gap in gaps]
    *_, last = (watch.add(feddc.Record(t, {}, (2, 4, 6), 0, 0, 0.0, drift=each)) for t, each in enumerate(drifts, 1))
    assert last == Growth("drift", 4, 8, 1.0, 5.0)


def test_a_hint_for_a_method_that_no_registry_knows() -> None:
    found = Growth(round=8, client=3, what="drift", before=1.0, after=10.0)
    what = "the drift of client 3 grows without bound, from 1 to 10 by round 8"
    plain = f"{what}: try a smaller learning rate or fewer local epochs"
    assert growth_sentence(found, "their.module:Method:alpha=1") == plain
    assert growth_sentence(found) == plain
    assert growth_sentence(found, "feddc") != plain
