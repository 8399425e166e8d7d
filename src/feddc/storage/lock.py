"""One process at a time in a folder, or at a file.

The lock belongs to the open file (filelock's ``flock``), so the system releases it when its process ends, however it
ends: the file that a killed process, a reboot, or a copy from another machine leaves behind locks nobody out. Its text
only says whom to look for.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import InUseError

NAME = "lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)


class Lock:
    """Held from creation to ``release``. Raises InUseError if another process holds it, unless told to ``wait``."""

    def __init__(self, folder: Path, name: str = NAME, *, wait: bool = False) -> None:
        self.path = folder / name
        # Not the soft lock that filelock offers where there are no others: a killed process would leave it behind.
        self._lock = FileLock(
            self.path, blocking=wait, thread_local=False, fallback_to_soft=False, on_acquired=_sign, mode=0o644
        )
        try:
            self._lock.acquire()
        except Timeout:
            with self.path.open("rb") as file:
                holder = file.read(200).decode(errors="replace").strip() or "another process"
            raise InUseError(f"{folder} is in use by {holder}: nothing was changed") from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:  # which some cluster file systems lack
                raise
            sys.stderr.write(f"feddc: {folder} is on a file system without locks: run one process there only\n")

    def release(self, *, remove: bool = False) -> None:
        """Let go, and with ``remove`` leave no file; a second call does nothing."""
        if remove and self._lock.is_locked:
            self.path.unlink(missing_ok=True)
        self._lock.release()


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Around the reading and writing of a file: other processes wait for their turn. It leaves no lock behind."""
    lock = Lock(path.parent, f"{path.name}.{NAME}", wait=True)
    try:
        yield
    finally:
        lock.release(remove=True)


def _sign(file: int) -> None:
    os.truncate(file, 0)
    os.write(file, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
