"""One process at a time in a run directory.

The lock belongs to the open file (``flock``), so the system lets go of it when its process ends, however it ends: the
file that a killed process, a reboot, or a copy from another machine leaves behind locks nobody out. Its text only says
whom to look for.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import sys
from pathlib import Path

from ..errors import InUseError

NAME = "lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)


class Lock:
    """Held from creation to ``release``. Raises RunError if another process holds it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._file = self._acquired()
        os.truncate(self._file, 0)
        os.write(self._file, f"process {os.getpid()} on {socket.gethostname()}\n".encode())

    def _acquired(self) -> int:
        while True:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _same(file, self.path):  # else its holder removed it after we opened it: take the new one
                    return file
            except BlockingIOError:
                holder = os.read(file, 200).decode(errors="replace").strip() or "another process"
                os.close(file)
                raise InUseError(f"{self.path.parent} is in use by {holder}: nothing was changed") from None
            except OSError as error:
                if error.errno in _NO_LOCKS:  # some cluster file systems have none
                    note = f"feddc: {self.path.parent} is on a file system without locks: run one process there only\n"
                    sys.stderr.write(note)
                    return file
                os.close(file)
                raise
            os.close(file)

    def release(self, *, remove: bool = False) -> None:
        """Let go, and with ``remove`` leave no file; a second call does nothing."""
        if self._file >= 0:
            if remove:
                self.path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = -1


def _same(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
