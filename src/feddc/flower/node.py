"""`feddc flower node`: Flower's SuperNode, with a warm ClientApp beside it.

The command becomes `flower-supernode` itself, so its signals, its exit code and its end are Flower's own. Before that
it forks ``warm.py``, and puts a folder first on the SuperNode's PATH in which `flwr-clientapp` is ``launcher.py``.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
import sysconfig
from pathlib import Path
from typing import NoReturn

import click

from ..errors import ConfigError
from . import launcher
from .processes import alive, private_folder


def become_supernode(arguments: list[str]) -> NoReturn:
    """Replace this process by a SuperNode; ConfigError if Flower is not installed."""
    supernode = shutil.which("flower-supernode")
    if supernode is None:
        raise ConfigError(
            "flower-supernode is not on the PATH: pip install 'feddc[flower]', and activate its environment"
        )
    environment = dict(os.environ)
    environment.setdefault("FLWR_SUPEREXEC_TASK_POLL_INTERVAL", "0.2")  # Flower's default is 1 second
    if _same_environment(supernode):
        folder = _start_warm()
        environment["PATH"] = f"{folder}{os.pathsep}{environment.get('PATH', os.defpath)}"
    else:
        click.echo(f"feddc: {supernode} is not from feddc's own environment, so its rounds will be slower", err=True)
    os.execve(supernode, ["flower-supernode", *arguments], environment)


def _same_environment(supernode: str) -> bool:
    """Whether a process of this Python can stand in for those of that SuperNode."""
    schemes = sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user")
    return Path(supernode).resolve().parent in [Path(sysconfig.get_path("scripts", each)).resolve() for each in schemes]


def _start_warm() -> Path:
    """Fork the warm process, which ends when this one does; the folder with its `flwr-clientapp`."""
    folder = _new_folder()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "socket"))
    listener.listen()  # from now on: a message that comes before it is warm waits
    closed_with_this, open_in_this = os.pipe()
    if os.fork():
        os.set_inheritable(open_in_this, True)
        listener.close()
        os.close(closed_with_this)
        return folder
    code = 1
    try:
        os.close(open_in_this)
        os.setsid()  # Ctrl-C is for the SuperNode
        from .warm import serve

        serve(listener, closed_with_this)
        code = 0
    except Exception as error:
        click.echo(f"feddc: no warm ClientApp, so rounds will be slower: {type(error).__name__}: {error}", err=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        sys.stderr.flush()
        os._exit(code)


def _new_folder() -> Path:
    """A folder for this process, without those of processes that were killed with all they had started."""
    parent = private_folder()
    for old in parent.glob("node-*"):
        pid = int(old.name.removeprefix("node-"))
        if pid == os.getpid() or not alive(pid):
            shutil.rmtree(old, ignore_errors=True)
    folder = parent / f"node-{os.getpid()}"
    folder.mkdir(mode=0o700)
    script = folder / "flwr-clientapp"
    command = shlex.join([sys.executable, "-I", "-S", launcher.__file__])
    script.write_text(f'#!/bin/sh\nexec {command} "$0" "$@"\n')
    script.chmod(0o700)
    return folder
