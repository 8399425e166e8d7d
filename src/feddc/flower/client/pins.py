"""A site that runs one app and no other: what is not byte for byte the pinned app is not imported.

Flower sends an app's code with every run, and whoever can submit a run can send any code. With `feddc flower node
--app-hash HASH` every process of a site that runs an app has the finder below before all others: whatever is outside
the packages that the site installed itself must be a file of the app with that hash. It looks at Python's own import
system and not at Flower, so it does not depend on how Flower unpacks an app. Besides, the process that unpacks apps
unpacks only the pinned one, so that no other fills the disk.

    python -m feddc.flower.client.pins ARGUMENT…      Flower's `flwr-clientapp`, with the pin of $FEDDC_APP_HASH
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.metadata import entry_points
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn

from ...errors import ConfigError
from ..home import flower_home
from .launcher import COMMAND, PIN

_LEFT_OUT = {".info", "__pycache__"}
LARGEST_APP = 100_000_000
"""Bytes of an unpacked app; an archive that has more is not read."""


def app_hash(folder: Path) -> str:
    """The hash of the app in a folder, as `flwr run` would send it."""
    with tempfile.TemporaryDirectory() as place:
        command = ["flwr", "build", "--app", str(folder.resolve())]
        try:
            quiet = {**os.environ, "FLWR_DISABLE_UPDATE_CHECK": "1", "FLWR_TELEMETRY_ENABLED": "0"}
            done = subprocess.run(command, cwd=place, env=quiet, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise ConfigError(
                "flwr is not on the PATH: pip install 'feddc[flower]', and activate its environment"
            ) from None
        built = list(Path(place).glob("*.fab"))
        if done.returncode or len(built) != 1:
            reason = (done.stderr or done.stdout).strip().splitlines()
            raise ConfigError(f"{folder} is not a Flower app: {reason[-1] if reason else 'flwr build failed'}")
        with zipfile.ZipFile(built[0]) as archive:
            archive.extractall(Path(place) / "app")
        return digest(manifest(Path(place) / "app"))


def manifest(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file of an unpacked app, by its path."""
    found = {}
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        if path.is_file() and not _LEFT_OUT & set(inside.parts):
            found[inside.as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def archived(archive: zipfile.ZipFile) -> dict[str, str]:
    """The same for an app that has not been unpacked; NotPinnedError if it is too large to be one."""
    files = [each for each in archive.infolist() if not each.is_dir() and not _LEFT_OUT & {*each.filename.split("/")}]
    if (size := sum(each.file_size for each in archive.infolist())) > LARGEST_APP:  # no more than this is ever read
        raise NotPinnedError(f"an app of {size} bytes was sent, and at most {LARGEST_APP} are unpacked here")
    return {each.filename: _sha256(archive.read(each)) for each in files}


def digest(files: Mapping[str, str]) -> str:
    """One hash for all files."""
    lines = "".join(f"{name}\0{files[name]}\n" for name in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()


class NotPinnedError(ImportError):
    """Code that is not of the pinned app; it was not run."""


class PinnedFinder(MetaPathFinder):
    """Refuses modules that are neither installed at this site nor files of the pinned app."""

    def __init__(self, wanted: str, trusted: Sequence[str]) -> None:
        """``trusted`` are the folders of what the site itself has installed."""
        self.wanted = wanted
        self.trusted = {str(Path(folder).resolve()) for folder in trusted if folder}
        self._apps: dict[Path, dict[str, str]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        for entry in sys.path:  # before anything is imported next to an app that is not the pinned one
            if str(Path(entry).resolve()) not in self.trusted:
                self._app(Path(entry).resolve())
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or self._is_trusted(spec):
            return None  # left to Python
        if spec.origin is None or not spec.has_location:  # a package without __init__.py: its modules are checked
            for place in spec.submodule_search_locations or ():
                self._owner(Path(place).resolve())
            return spec
        origin = Path(spec.origin).resolve()
        app = self._owner(origin)
        source = origin.read_bytes()
        if origin.suffix != ".py" or self._apps[app].get(origin.relative_to(app).as_posix()) != _sha256(source):
            raise NotPinnedError(f"{origin.name} is not a file of the app that this site has pinned")
        folders = [str(origin.parent)] if spec.submodule_search_locations is not None else None
        loader = _FromSource(fullname, str(origin), source)
        return spec_from_file_location(fullname, origin, loader=loader, submodule_search_locations=folders)

    def _is_trusted(self, spec: ModuleSpec) -> bool:
        found = [spec.origin] if spec.has_location and spec.origin else list(spec.submodule_search_locations or ())
        places = [Path(place).resolve() for place in found]
        inside = [any(place.is_relative_to(app) for app in self._apps) for place in places]
        parents = [{str(each) for each in place.parents} for place in places]
        return bool(places) and not any(inside) and all(above & self.trusted for above in parents)

    def _owner(self, origin: Path) -> Path:
        """The pinned app to which a file belongs."""
        for app in self._apps:
            if origin.is_relative_to(app):
                return app
        raise NotPinnedError(f"{origin.name} is outside the app that this site has pinned")

    def _app(self, folder: Path) -> None:
        """Take note of a folder that has come onto the path of imports; NotPinnedError if it is not the pinned app."""
        if folder in self._apps:
            return
        found = manifest(folder) if folder.is_dir() else {}
        if digest(found) != self.wanted:
            raise NotPinnedError(f"this site runs only the app with the hash {self.wanted}, not {digest(found)}")
        self._apps[folder] = found


class _FromSource(SourceFileLoader):
    """Compiles the bytes that were checked; compiled files beside them are not looked at."""

    def __init__(self, fullname: str, path: str, source: bytes) -> None:
        super().__init__(fullname, path)
        self._source = source

    def get_data(self, path: str) -> bytes:
        return self._source if path == self.path else super().get_data(path)

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self._source, self.path)
        return code


def enforce(trust: Sequence[str] = ()) -> None:
    """Have the pin of the environment, if there is one, hold in this process from now on.

    Trusted is what can be imported now, and what ``trust`` names.
    """
    wanted = os.environ.get(PIN)
    if wanted and not trusted():
        sys.meta_path.insert(0, PinnedFinder(wanted, [*sys.path, *trust]))
        sys.addaudithook(_stay_inside)


def unpack_only_the_pinned() -> None:
    """In a process of Flower's that unpacks apps: unpack no archive but the pinned app's, if there is a pin."""
    if not trusted():
        return
    wanted, unpack = os.environ[PIN], zipfile.ZipFile.extractall

    def extractall(self: zipfile.ZipFile, *places: Any, **more: Any) -> None:
        if (found := digest(archived(self))) != wanted:
            raise NotPinnedError(
                f"this site runs only the app with the hash {wanted}, not {found}; nothing is unpacked"
            )
        unpack(self, *places, **more)

    zipfile.ZipFile.extractall = extractall  # type: ignore[method-assign]


def _stay_inside(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse a folder for an app outside Flower's own: its name has the app's version, which may be "1/../../…".

    Flower unpacks an app before anything of it is imported, so what is refused later would already be on the disk.
    """
    if event == "os.mkdir" and isinstance(arguments[0], str | os.PathLike):
        place, home = Path(arguments[0]), flower_home()
        if place.is_relative_to(home) and ".." in place.relative_to(home).parts:
            raise NotPinnedError("this app is to be unpacked outside Flower's folder; it is not")


def trusted() -> list[str]:
    """The folders that are trusted here; empty where no pin holds."""
    return [folder for each in sys.meta_path if isinstance(each, PinnedFinder) for folder in sorted(each.trusted)]


def check_hash(text: str) -> str:
    """A hash as `feddc flower hash` prints it."""
    if len(text) != 64 or set(text) - set("0123456789abcdef"):
        raise ConfigError(f"--app-hash must be the 64 digits that `feddc flower hash DIR` prints, not '{text}'")
    return text


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main() -> NoReturn:
    """Flower's own command, pinned."""
    enforce()
    unpack_only_the_pinned()
    [entry] = entry_points(group="console_scripts", name=COMMAND)
    sys.argv[0] = COMMAND
    sys.exit(entry.load()())


if __name__ == "__main__":
    main()
