"""Checkpoints: the state of a run on disk, from which it continues bit for bit.

    checkpoint/manifest-00000120.json      round, checksums of everything it stands on, versions
    checkpoint/server-00000120.safetensors the server's state and the buffers
    checkpoint/clients-00000120-0.safetensors  the rows of clients that changed since the checkpoint before

A manifest is written last and stands on the files that it lists: the rows of the clients are in several of them, of
which the later one counts. A file most of whose rows have been replaced is written anew with the next checkpoint, so
that the disk holds at most about twice the rows that there are. The last two manifests are kept, with all files that
they stand on: if one is damaged, the other counts. More are kept where rounds may be taken back (``--keep``). There is
no pickle in any of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from ..engine import Simulation
from ..errors import RunError
from ..storage.atomic import digest, sync_folder, write_whole

FORMAT = 2
KEPT = 2
SEGMENT_BYTES = 64 * 2**20
MOST_SEGMENTS = 64
_NAME = re.compile(r"(manifest|server|clients)-\d{8,}(-\d+)?\.(json|safetensors)")


class DamagedError(Exception):
    """A checkpoint that cannot be used, and why; the one before it may be."""


@dataclass(frozen=True)
class Segment:
    """A file with the rows of some clients."""

    name: str
    sha256: str
    clients: frozenset[int]


class Checkpoints:
    """The checkpoints in a folder, which appears with the first one."""

    def __init__(self, folder: Path, keep: int = 0) -> None:
        """``keep``: also those of so many rounds before the newest are kept."""
        self.folder, self.keep = folder, keep
        self.round = 0
        """The round of the newest checkpoint, 0 where there is none."""
        self._segments: list[Segment] = []

    def write(self, simulation: Simulation, about: Mapping[str, Any]) -> None:
        """Keep the present state; ``about`` is stored with it. If it fails, the checkpoint before still counts."""
        tensors, round, store = simulation.state(), simulation.round, simulation.store
        self.folder.mkdir(exist_ok=True)
        rewritten, kept = _compacted(self._segments, frozenset(store.unsaved()))
        rows = max(1, SEGMENT_BYTES // max(1, store.row_bytes))
        try:
            fresh = []
            for i, first in enumerate(range(0, len(rewritten), rows)):
                clients = rewritten[first : first + rows]
                state = store.gather(clients)._asdict() | {"clients": torch.tensor(clients)}
                name = f"clients-{round:08}-{i}.safetensors"
                fresh.append(Segment(name, self._save(name, state), frozenset(clients)))
            server = f"server-{round:08}.safetensors"
            files = {server: self._save(server, tensors)} | {each.name: each.sha256 for each in (*kept, *fresh)}
            sync_folder(self.folder)  # before the manifest that stands on them
            content = {"format": FORMAT, "round": round, "server": server, "files": files, **about}
            write_whole(self.folder / _manifest(round), _signed(content))
        except BaseException:
            self._prune()
            raise
        self._segments, self.round = [*kept, *fresh], round
        store.mark_saved()
        self._prune()

    def bytes_to_write(self, simulation: Simulation) -> int:
        """What the next checkpoint writes, without what it may have to rewrite."""
        state = sum(tensor.nbytes for tensor in simulation.state().values())
        return state + len(simulation.store.unsaved()) * simulation.store.row_bytes

    def restore(
        self, simulation: Simulation, usable: Callable[[Mapping[str, Any]], None]
    ) -> tuple[dict[str, Any] | None, list[str]]:
        """Put ``simulation`` back to the newest checkpoint that is whole.

        ``usable`` is called with each manifest and raises DamagedError for one that must not be used. Returns the
        manifest, or None if there is no checkpoint at all, and a sentence for each one that was passed over. Raises
        RunError if there are checkpoints but none is whole.
        """
        rounds = self._rounds()
        faults = []
        for round in rounds:
            try:
                manifest = self._verified(round)
                usable(manifest)
                self._load(simulation, manifest)
            except DamagedError as fault:
                faults.append(f"the checkpoint of round {round} is damaged: {fault}")
                continue
            self.round = round
            self._prune(newest=round)
            return manifest, faults
        if rounds:
            raise RunError(
                f"no checkpoint in {self.folder} can be used ({'; '.join(faults)}): "
                "move that folder away to start this run again from round 1"
            )
        return None, []

    def drop_after(self, round: int) -> None:
        """Forget the checkpoints of later rounds."""
        if self.folder.is_dir():
            self._prune(newest=round)

    def rewrite(self, about: Mapping[str, Any]) -> None:
        """Replace what every manifest says about the run by this; one that is damaged stays so."""
        for round in self._rounds():
            try:
                content = _read_signed(self.folder / _manifest(round)) | dict(about)
            except DamagedError:
                continue
            write_whole(self.folder / _manifest(round), _signed(content))

    def _verified(self, round: int) -> dict[str, Any]:
        """The manifest of a round, after every file that it stands on was found with the right checksum."""
        manifest = _read_signed(self.folder / _manifest(round))
        if manifest.get("format") != FORMAT:
            raise RunError(f"{self.folder} has format {manifest.get('format')}, which this feddc does not read")
        try:
            files, server = dict(manifest["files"]), manifest["server"]
            if manifest["round"] != round or server not in files:
                raise ValueError("it contradicts itself")
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedError(f"its manifest is not one: {error}") from None
        for name, wanted in files.items():
            if not _NAME.fullmatch(name):
                raise DamagedError(f"its manifest names '{name}'")
            try:
                found = digest(self.folder / name)
            except OSError as error:
                raise DamagedError(f"{name} cannot be read: {error.strerror}") from None
            if found != wanted:
                raise DamagedError(f"{name} is corrupted")
        return manifest

    def _load(self, simulation: Simulation, manifest: Mapping[str, Any]) -> None:
        store = simulation.store
        simulation.restore(manifest["round"], _read(self.folder / manifest["server"]))
        self._segments = []
        for name, sha256 in manifest["files"].items():
            if name != manifest["server"]:
                rows = _read(self.folder / name)
                clients = [int(each) for each in rows.pop("clients", torch.empty(0))]
                store.restore(clients, rows)
                self._segments.append(Segment(name, sha256, frozenset(clients)))
        store.mark_saved()

    def _save(self, name: str, tensors: Mapping[str, Tensor]) -> str:
        content = safetensors.torch.save({key: value.contiguous() for key, value in tensors.items()})
        write_whole(self.folder / name, content, lasting=False)
        return hashlib.sha256(content).hexdigest()

    def _rounds(self) -> list[int]:
        """The rounds that have a manifest, newest first."""
        found = self.folder.glob("manifest-*.json") if self.folder.is_dir() else iter(())
        return sorted((int(path.stem.partition("-")[2]) for path in found if _NAME.fullmatch(path.name)), reverse=True)

    def _prune(self, newest: int | None = None) -> None:
        """Remove manifests beyond the last two that are not to be kept, and files that none of those stands on."""
        rounds = [round for round in self._rounds() if newest is None or round <= newest]
        needed = set()
        for round in (each for place, each in enumerate(rounds) if place < KEPT or each >= rounds[0] - self.keep):
            try:
                needed |= {_manifest(round), *_read_signed(self.folder / _manifest(round))["files"]}
            except DamagedError:  # stands on nothing any more
                continue
        for path in self._files():
            if path.name not in needed:
                path.unlink(missing_ok=True)

    def _files(self) -> Iterator[Path]:
        return (path for path in self.folder.iterdir() if _NAME.fullmatch(path.name.removesuffix(".part")))


def _compacted(segments: list[Segment], changed: frozenset[int]) -> tuple[list[int], list[Segment]]:
    """The clients to write, and the segments that stay.

    Where at least half of a segment's rows have been replaced by later ones, the rest is written too and the segment
    goes; so do the smaller half of them when there are many.
    """
    rewritten = set(changed)
    stay: list[Segment] = []
    later = set(changed)
    for segment in reversed(segments):  # a row counts in the last segment that has it
        live = segment.clients - later
        later |= segment.clients
        if 2 * len(live) > len(segment.clients):
            stay.append(segment)
        else:
            rewritten |= live
    if len(stay) > MOST_SEGMENTS:
        small = sorted(stay, key=lambda each: len(each.clients))[: len(stay) // 2]
        gone = {each.name for each in small}
        rewritten |= set().union(*(each.clients for each in small))
        stay = [each for each in stay if each.name not in gone]
    return sorted(rewritten), stay[::-1]


def _manifest(round: int) -> str:
    return f"manifest-{round:08}.json"


def _signed(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, indent=1)
    return json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest()}) + "\n" + text + "\n"


def _read_signed(path: Path) -> dict[str, Any]:
    try:
        first, _, text = path.read_text(encoding="utf-8").partition("\n")
        text = text.removesuffix("\n")
        if json.loads(first)["sha256"] != hashlib.sha256(text.encode()).hexdigest():
            raise ValueError("its checksum is another")
        content = json.loads(text)
    except OSError as error:
        raise DamagedError(f"{path.name} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedError(f"{path.name} is corrupted: {error}") from None
    if not isinstance(content, dict):
        raise DamagedError(f"{path.name} is not a manifest")
    return content


def _read(path: Path) -> dict[str, Tensor]:
    """The tensors of a file whose checksum is right: if it cannot be read, it was not us who wrote it."""
    try:
        return safetensors.torch.load(path.read_bytes())
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise RunError(f"{path} is not a file of feddc: {error}") from None
