"""`feddc flower node`: Flower's SuperNode, with a warm ClientApp beside it, and one app if it is told which.

It forks ``warm.py`` and starts `flower-supernode` with a folder first on its PATH in which `flwr-clientapp` is
``launcher.py``; with a pinned app, Flower's commands for other kinds of tasks are there too, and refuse. Signals are
passed on, and the exit code is the SuperNode's.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
import sysconfig
from importlib.metadata import entry_points
from pathlib import Path

import click

from ...errors import ConfigError, FedDCError, check
from ..home import flower_home
from ..local import POLLING
from . import launcher
from .demands import CLIP, NOISE
from .launcher import PIN
from .pins import check_hash
from .processes import NODE, alive, private_folder
from .supervisor import supervise

ONE_APP = "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"


def run_supernode(arguments: list[str], app_hash: str | None = None) -> int:
    """Run a SuperNode to its end, its exit code; ConfigError if Flower is not installed.

    With ``app_hash`` only the app of that hash is run, in the packages that are installed here.
    """
    supernode = shutil.which("flower-supernode")
    if supernode is None:
        raise ConfigError(
            "flower-supernode is not on the PATH: pip install 'feddc[flower]', and activate its environment"
        )
    if app_hash is None and any(demand in word for word in arguments for demand in (CLIP, NOISE)):
        click.echo(f"feddc: {CLIP} and {NOISE} hold for an app that you have read: pin it by --app-hash", err=True)
    os.environ.pop(PIN, None)
    environment = POLLING | os.environ | {NODE: str(os.getpid())}
    if app_hash is not None:
        check(launcher.OTHER_PACKAGES not in arguments, f"{launcher.OTHER_PACKAGES} would run code that is not pinned")
        check(_same_environment(supernode), f"--app-hash: {supernode} is not from feddc's own environment")
        environment |= {PIN: check_hash(app_hash), ONE_APP: "1"}
        os.environ |= {PIN: app_hash, ONE_APP: "1"}  # for the warm process
    try:
        check(_same_environment(supernode), f"{supernode} is not from feddc's own environment")
        environment["PATH"] = f"{_start_warm()}{os.pathsep}{environment.get('PATH', os.defpath)}"
    except (OSError, FedDCError) as error:
        if app_hash is not None:
            raise ConfigError(f"--app-hash cannot be kept here: {error}") from None
        click.echo(f"feddc: no warm ClientApp, so rounds will be slower: {error}", err=True)
    return supervise([supernode, *arguments], environment, _attempts(arguments))


def _attempts(arguments: list[str]) -> int | None:
    """How often to try if the SuperLink does not let the SuperNode in: as Flower's own --max-retries says."""
    for i, word in enumerate(arguments):
        value = word.partition("=")[2] if "=" in word else (arguments[i + 1] if i + 1 < len(arguments) else "")
        if word.partition("=")[0] == "--max-retries" and value.isdecimal():
            return int(value) + 1
    return None


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
    command = shlex.join([sys.executable, "-I", "-S", launcher.__file__, str(place)])
    scripts = {launcher.COMMAND: f'exec {command} "$0" "$@"'}
    if PIN in os.environ:  # Flower's other commands for what a run may ask of a node: they would run code of their own
        others = {each.name for each in entry_points(group="console_scripts") if each.name.startswith("flwr-")}
        refusal = "echo 'feddc: this site runs one pinned app and nothing else' >&2; exit 1"
        scripts |= dict.fromkeys(others - {launcher.COMMAND}, refusal)
    for name, line in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o700)
    return folder
