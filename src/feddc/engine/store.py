"""Client state between rounds: the only mutable state of a simulation besides the server's.

States of up to 256 MB are kept in memory. Larger ones (N clients × P parameters × 1 or 2) are rows of a sparse
temporary file, read and written row by row: memory follows the cohort, disk the clients that ever took part.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ..errors import RunError
from ..types import Rows, Vector

IN_MEMORY_BYTES = 256 * 2**20


class ClientStore:
    """The state of every client, one table per field; a client that never took part has the initial state."""

    def __init__(self, initial: Any, clients: int) -> None:
        """``initial`` is the NamedTuple of vectors that the method's ``init_client`` gives."""
        self._initial = initial
        self._seen = torch.zeros(clients, dtype=torch.bool)
        self._unsaved = torch.zeros(clients, dtype=torch.bool)
        size = sum(field.nbytes for field in initial) * clients
        table = MemoryTable if size <= IN_MEMORY_BYTES else FileTable
        self._tables: list[StateTable] = [table(field, clients) for field in initial]

    def gather(self, clients: Sequence[int]) -> Any:
        """The states of these clients, as rows; only those of clients that took part before are looked up."""
        seen = self._seen[list(clients)]
        known = [client for client, before in zip(clients, seen.tolist(), strict=True) if before]
        fields = []
        for table, initial in zip(self._tables, self._initial, strict=True):
            if len(known) == len(clients):
                rows = table.read(clients)
            else:
                rows = initial.repeat(len(clients), 1)
                if known:
                    rows[seen] = table.read(known)
            fields.append(rows)
        return type(self._initial)(*fields)

    def scatter(self, clients: Sequence[int], state: Any) -> None:
        """Replace the states of these clients."""
        for table, rows in zip(self._tables, state, strict=True):
            table.write(clients, rows)
        self._seen[list(clients)] = True
        self._unsaved[list(clients)] = True

    @property
    def row_bytes(self) -> int:
        """The size of one client's state; 0 for a method that keeps none."""
        return sum(field.nbytes for field in self._initial)

    def unsaved(self) -> list[int]:
        """The clients whose state changed since ``mark_saved``: all that a checkpoint has to write."""
        clients: list[int] = self._unsaved.nonzero().flatten().tolist() if self.row_bytes else []
        return clients

    def restore(self, clients: Sequence[int], rows: Mapping[str, Rows]) -> None:
        """Put back rows that were gathered before, by field. Raises RunError where they do not fit."""
        in_range = all(0 <= client < len(self._seen) for client in clients)
        shapes = {name: ((len(clients), *field.shape), field.dtype) for name, field in self._initial._asdict().items()}
        if not in_range or shapes != {name: (tuple(field.shape), field.dtype) for name, field in rows.items()}:
            raise RunError("the stored rows of the clients are not those of this run")
        self.scatter(clients, type(self._initial)(**rows))

    def mark_saved(self) -> None:
        """Say that a checkpoint holds the present state of every client."""
        self._unsaved.zero_()


class StateTable(Protocol):
    def read(self, clients: Sequence[int]) -> Rows:
        """A copy of these rows."""
        ...

    def write(self, clients: Sequence[int], rows: Rows) -> None: ...


class MemoryTable:
    """Rows in memory that the system hands out when they are first written."""

    def __init__(self, field: Vector, clients: int) -> None:
        if field.numel() == 0:
            self._rows = field.new_zeros(clients, 0)
        else:
            memory = mmap.mmap(-1, clients * field.nbytes)
            self._rows = torch.frombuffer(memory, dtype=field.dtype).view(clients, -1)

    def read(self, clients: Sequence[int]) -> Rows:
        return self._rows.index_select(0, torch.tensor(clients))

    def write(self, clients: Sequence[int], rows: Rows) -> None:
        self._rows.index_copy_(0, torch.tensor(clients), rows)


class FileTable:
    """Rows of a sparse file that vanishes with the process. Read and written, not mapped: a full disk is then an
    OSError rather than a crash, and pages of the file do not count as the process's memory."""

    def __init__(self, field: Vector, clients: int) -> None:
        self._width, self._bytes, self._type = field.numel(), field.nbytes, field.dtype
        self._file = tempfile.TemporaryFile(prefix="feddc-", buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._file.truncate(clients * self._bytes)

    def read(self, clients: Sequence[int]) -> Rows:
        rows = torch.empty(len(clients), self._width, dtype=self._type)
        for client, out in zip(clients, rows, strict=True):
            os.preadv(self._file.fileno(), [_bytes(out)], client * self._bytes)
        return rows

    def write(self, clients: Sequence[int], rows: Rows) -> None:
        for client, values in zip(clients, rows.contiguous(), strict=True):
            written = os.pwrite(self._file.fileno(), _bytes(values), client * self._bytes)
            if written < self._bytes:
                raise OSError(errno.ENOSPC, "no room for the state of the clients", tempfile.gettempdir())


def _bytes(vector: Tensor) -> memoryview:
    return vector.numpy().data.cast("B")
