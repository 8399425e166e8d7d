"""Client state in memory and in a file is the same state."""

from __future__ import annotations

import pytest
import torch

from feddc.algorithms.feddc import Client
from feddc.engine.store import ClientStore


@pytest.mark.parametrize("in_memory", [True, False])
def test_rows_come_back(in_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feddc.engine.store.IN_MEMORY_BYTES", 2**20 if in_memory else 0)
    store = ClientStore(Client(torch.zeros(5), torch.full((5,), 3.0)), 100)
    assert torch.equal(store.gather([7, 2]).variate, torch.full((2, 5), 3.0))  # the initial state
    state = Client(torch.randn(2, 5), torch.randn(2, 5))
    store.scatter([7, 99], state)
    back = store.gather([99, 0, 7])
    assert torch.equal(back.drift, torch.stack([state.drift[1], torch.zeros(5), state.drift[0]]))
    assert torch.equal(back.variate[1], torch.full((5,), 3.0))
    back.drift.zero_()
    assert store.gather([7]).drift.any()  # what was gathered is a copy


def test_empty_fields_need_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feddc.engine.store.IN_MEMORY_BYTES", 0)
    store = ClientStore(Client(torch.zeros(5), torch.zeros(0)), 4)
    store.scatter([1], Client(torch.ones(1, 5), torch.zeros(1, 0)))
    assert store.gather([1]).variate.shape == (1, 0)
