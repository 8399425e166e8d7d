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
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ..types import Rows, Vector

IN_MEMORY_BYTES = 256 * 2**20


class ClientStore:
    """The state of every client, one table per field; a client that never took part has the initial state."""

    def __init__(self, initial: Any, clients: int) -> None:
        """``initial`` is the NamedTuple of vectors that the method's ``init_client`` gives."""
        self._initial = initial
        self._seen = torch.zeros(clients, dtype=torch.bool)
        size = sum(field.nbytes for field in initial) * clients
        table = MemoryTable if size <= IN_MEMORY_BYTES else FileTable
        self._tables: list[Table] = [table(field, clients) for field in initial]

    def gather(self, clients: Sequence[int]) -> Any:
        """The states of these clients, as rows."""
        fresh = ~self._seen[list(clients)]
        some_fresh = bool(fresh.any())
        fields = []
        for table, initial in zip(self._tables, self._initial, strict=True):
            rows = table.read(clients)
            if some_fresh:
                rows[fresh] = initial
            fields.append(rows)
        return type(self._initial)(*fields)

    def scatter(self, clients: Sequence[int], state: Any) -> None:
        """Replace the states of these clients."""
        for table, rows in zip(self._tables, state, strict=True):
            table.write(clients, rows)
        self._seen[list(clients)] = True


class Table(Protocol):
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
        self._field = field[:0].clone()
        self._width, self._bytes = field.numel(), field.nbytes
        self._file = tempfile.TemporaryFile(prefix="feddc-", buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._file.truncate(clients * self._bytes)

    def read(self, clients: Sequence[int]) -> Rows:
        rows = self._field.new_empty(len(clients), self._width)
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
