"""What the processes of one client need to find each other, and to end together."""

from __future__ import annotations

import os
import select
import stat
import tempfile
from pathlib import Path

from ...errors import WorkerError

NODE = "FEDDC_NODE"
"""The environment variable in which `feddc flower node` says its process id."""


def private_folder() -> Path:
    """A folder for sockets that nobody else can enter: paths of sockets must be short, so it is a temporary one."""
    folder = Path(tempfile.gettempdir()) / f"feddc-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o077:
        raise WorkerError(f"{folder} must be a folder that only its owner can enter: remove it")
    return folder


def alive(pid: int) -> bool:
    """Whether a process has not ended."""
    if hasattr(os, "pidfd_open"):  # also sees that a process has ended which nobody has waited for
        try:
            file = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        except OSError:  # the system does not have it, or does not allow it
            pass
        else:
            try:
                return not select.select([file], [], [], 0)[0]
            finally:
                os.close(file)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True
