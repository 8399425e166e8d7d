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

from ...errors import ConfigError, FedDCError, check
from ..home import flower_home
from . import launcher
from .processes import NODE, alive, private_folder


def become_supernode(arguments: list[str]) -> NoReturn:
    """Replace this process by a SuperNode; ConfigError if Flower is not installed."""
    supernode = shutil.which("flower-supernode")
    if supernode is None:
        raise ConfigError(
            "flower-supernode is not on the PATH: pip install 'feddc[flower]', and activate its environment"
        )
    environment = dict(os.environ)
    environment.setdefault("FLWR_SUPEREXEC_TASK_POLL_INTERVAL", "0.2")  # Flower's default is 1 second
    environment[NODE] = str(os.getpid())
    try:
        check(_same_environment(supernode), f"{supernode} is not from feddc's own environment")
        environment["PATH"] = f"{_start_warm()}{os.pathsep}{environment.get('PATH', os.defpath)}"
    except (OSError, FedDCError) as error:
        click.echo(f"feddc: no warm ClientApp, so rounds will be slower: {error}", err=True)
    os.execve(supernode, ["flower-supernode", *arguments], environment)


def _same_environment(supernode: str) -> bool:
    """Whether a process of this Python can stand in for those of that SuperNode."""
    schemes = sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user")
    return Path(supernode).resolve().parent in [Path(sysconfig.get_path("scripts", each)).resolve() for each in schemes]


def _start_warm() -> Path:
    """Fork the warm process, which ends when this one does; the folder with its `flwr-clientapp`."""
    place = private_folder() / f"node-{os.getpid()}.sock"
    place.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place))
    place.chmod(0o600)
    folder = _new_folder(place)
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
        place.unlink(missing_ok=True)
        sys.stderr.flush()
        os._exit(code)


def _new_folder(place: Path) -> Path:
    """A folder for the PATH of this process, without those of processes that were killed with all they had started.

    It is in the user's home: what is run from there for a long time must not be where others can write.
    """
    parent = flower_home() / "feddc" / "nodes"
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in parent.iterdir():
        if old.name.isdecimal() and (int(old.name) == os.getpid() or not alive(int(old.name))):
            shutil.rmtree(old, ignore_errors=True)
            if int(old.name) != os.getpid():
                place.with_name(f"node-{old.name}.sock").unlink(missing_ok=True)
    folder = parent / str(os.getpid())
    folder.mkdir(mode=0o700)
    script = folder / "flwr-clientapp"
    command = shlex.join([sys.executable, "-I", "-S", launcher.__file__, str(place)])
    script.write_text(f'#!/bin/sh\nexec {command} "$0" "$@"\n')
    script.chmod(0o700)
    return folder
