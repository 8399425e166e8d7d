"""Client state: what was written is read, in memory and on disk, and only what was written takes room."""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest
import torch

from feddc.engine import store as module
from feddc.engine.store import ClientStore, FileTable
from feddc.errors import RunError
from feddc.types import Rows


class State(NamedTuple):
    drift: Rows
    variate: Rows


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ClientStore:
    monkeypatch.setattr(module, "IN_MEMORY_BYTES", 2**30 if request.param == "memory" else 0)
    return ClientStore(State(torch.arange(3.0), torch.zeros(0)), clients=5)


def test_clients_begin_with_the_initial_state(store: ClientStore) -> None:
    state = store.gather([4, 0])
    assert torch.equal(state.drift, torch.arange(3.0).repeat(2, 1))
    assert state.variate.shape == (2, 0)


def test_what_is_scattered_is_gathered_in_any_order(store: ClientStore) -> None:
    rows = torch.randn(2, 3)
    store.scatter([3, 1], State(rows, torch.zeros(2, 0)))
    found = store.gather([1, 2, 3]).drift
    assert torch.equal(found, torch.stack([rows[1], torch.arange(3.0), rows[0]]))


def test_what_is_gathered_is_a_copy(store: ClientStore) -> None:
    store.scatter([0], State(torch.ones(1, 3), torch.zeros(1, 0)))
    store.gather([0]).drift.zero_()
    assert torch.equal(store.gather([0]).drift, torch.ones(1, 3))


def test_the_file_has_room_only_for_clients_that_took_part() -> None:
    table = FileTable(torch.zeros(100_000), clients=1000)
    table.write([7, 900], torch.ones(2, 100_000))
    status = os.fstat(table._file.fileno())
    assert status.st_size == 1000 * 400_000
    assert status.st_blocks * 512 < 3 * 400_000


def test_a_disk_without_room_for_a_whole_row_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IN_MEMORY_BYTES", 0)
    store = ClientStore(State(torch.arange(3.0), torch.zeros(0)), clients=5)
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: pwrite(file, bytes(data)[: len(bytes(data)) // 2], at))
    with pytest.raises(OSError, match="no room for the state of the clients"):
        store.scatter([2], State(torch.ones(1, 3), torch.zeros(1, 0)))


def test_states_stay_in_memory_while_all_clients_together_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    initial = State(torch.zeros(3), torch.zeros(2, 2))
    assert module.IN_MEMORY_BYTES == 268_435_456  # the 256 MB that the module's first lines and the docs promise
    monkeypatch.setattr(module, "IN_MEMORY_BYTES", 28 * 10)
    kinds = [{type(table) for table in ClientStore(initial, clients)._tables} for clients in (10, 11)]
    assert kinds == [{module.MemoryTable}, {module.FileTable}]


@pytest.mark.parametrize(
    ("clients", "rows"),
    [
        ([5], {"drift": torch.zeros(1, 3), "variate": torch.zeros(1, 0)}),
        ([-1], {"drift": torch.zeros(1, 3), "variate": torch.zeros(1, 0)}),
        ([1], {"drift": torch.zeros(1, 4), "variate": torch.zeros(1, 0)}),
        ([1], {"drift": torch.zeros(1, 3, dtype=torch.float64), "variate": torch.zeros(1, 0)}),
        ([1], {"drift": torch.zeros(1, 3)}),
    ],
)
def test_stored_rows_of_another_run_are_refused(store: ClientStore, clients: list[int], rows: dict[str, Rows]) -> None:
    with pytest.raises(RunError, match="the stored rows of the clients are not those of this run"):
        store.restore(clients, rows)


def test_what_is_restored_is_gathered_and_has_to_be_saved(store: ClientStore) -> None:
    store.restore([4, 0], {"drift": torch.tensor([[1.0, 2, 3], [4, 5, 6]]), "variate": torch.zeros(2, 0)})
    assert store.gather([0, 1, 4]).drift.tolist() == [[4, 5, 6], [0, 1, 2], [1, 2, 3]]
    assert store.unsaved() == [0, 4]
    store.mark_saved()
    assert store.unsaved() == []
    assert store.row_bytes == 12
