"""Randomness: every purpose, round and client has a stream of its own, and the engine draws from the right one."""

from __future__ import annotations

import itertools
import typing
from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import feddc
from feddc.engine.guarding import keyed
from feddc.engine.keys import _NUMBERS, Purpose, generator
from feddc.engine.local import batches, kernel as local
from feddc.engine.local.batches import augmentation, plan
from feddc.engine.local.kernel import Job, Start, seeded, train_client
from feddc.models import FlatModel
from feddc.trust.guard import SERVER
from feddc.types import Correction
from tests.conftest import FAST, make_federation


def test_every_part_of_the_key_counts() -> None:
    purposes = typing.get_args(Purpose)
    assert list(_NUMBERS.items())[:3] == [("cohort", 1), ("batches", 2), ("torch", 3)]  # or old seeds draw otherwise
    assert list(_NUMBERS) == list(purposes)
    assert list(_NUMBERS.values()) == list(range(1, len(purposes) + 1))
    keys = list(itertools.product((0, 1), purposes, (1, 2), (0, 1)))
    drawn = {key: tuple(generator(*key).integers(2**63, size=2)) for key in keys}
    assert len(set(drawn.values())) == len(keys)


def test_clients_of_equal_size_take_their_samples_in_different_orders() -> None:
    job = Job(nn.Linear(6, 3), make_federation([20, 20]), FAST, 0, None)
    assert plan(job, 1, 0).order.tolist() != plan(job, 1, 1).order.tolist()
    assert plan(job, 1, 0).order.tolist() != plan(job, 2, 0).order.tolist()
    assert plan(job, 1, 0).order.tolist() == plan(job, 1, 0).order.tolist()


def test_each_purpose_draws_from_its_own_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches, augmentation and torch's own draws of one client in one round."""
    asked: list[tuple[str, int, int]] = []

    def watched(seed: int, purpose: Purpose, round: int, client: int = 0) -> np.random.Generator:
        asked.append((purpose, round, client))
        return generator(seed, purpose, round, client)

    monkeypatch.setattr(batches, "generator", watched)
    federation = replace(make_federation([20, 20]), augment=lambda batch, rng: batch + float(rng.random()))
    job = Job(nn.Linear(6, 3), federation, FAST, 0, None)
    changed = augmentation(job, 3, 1)
    assert changed is not None
    found = changed(torch.zeros(1))
    assert isinstance(found, torch.Tensor)
    assert float(found) == pytest.approx(generator(0, "augment", 3, 1).random())
    plan(job, 3, 1)
    assert asked == [("augment", 3, 1), ("batches", 3, 1)]


def test_the_server_and_every_client_have_noise_of_their_own() -> None:
    random = keyed(7)
    drawn = [random(3, client).random() for client in (SERVER, 0, 1)]
    assert drawn == [generator(7, "noise", 3, place).random() for place in (0, 1, 2)]


def test_torch_draws_for_every_client_and_round_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    def noted(seed: int, device: torch.device) -> AbstractContextManager[None]:
        seeds.append(seed)
        return seeded(seed, device)

    monkeypatch.setattr(local, "seeded", noted)
    module = nn.Linear(6, 3)
    job, flat = Job(module, make_federation([2] * 20), replace(FAST, epochs=1), 0, None), FlatModel(module)
    for round in range(1, 9):
        for client in range(20):
            train_client(job, flat, client, Start(round, flat.params.clone(), flat.buffers()), Correction())
    assert len(set(seeds)) == 160


def test_a_seed_decides(federation: feddc.Federation, model: nn.Module) -> None:
    runs = [
        feddc.train(feddc.FedAvg(), model, federation, rounds=2, training=FAST, participation=0.5, seed=seed)
        for seed in (0, 0, 1)
    ]
    first, again, other = ([(r.participants, r.metrics) for r in run.records] for run in runs)
    assert first == again != other
