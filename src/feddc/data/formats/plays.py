"""Plays in XML, as NLTK packs them, to windows of characters: LEAF's samples, a client for each role.

A ``SPEECH`` has ``SPEAKER``s, nearly always one, and ``LINE``s; a ``STAGEDIR`` inside a line is no speech. A role is a
play and a name. Its text is its lines in order, newlines as spaces, runs of spaces as one; a sample is 80 characters
and the next one.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError
from .files import DAMAGE, broken, explained

ALPHABET = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""LEAF's 80 symbols; a class is a place in it."""
WINDOW = 80


def read_roles(path: Path) -> dict[tuple[str, str], str]:
    """What each role says, by play and speaker."""
    said: dict[tuple[str, str], list[str]] = {}
    with explained(path):
        try:
            with zipfile.ZipFile(path) as archive:
                names = sorted(name for name in archive.namelist() if name.endswith(".xml"))
                for name in names:
                    play = Path(name).stem
                    for speech in ElementTree.fromstring(archive.read(name)).iter("SPEECH"):
                        lines = [_spoken(line) for line in speech.iter("LINE")]
                        for speaker in speech.iter("SPEAKER"):
                            if speaker.text and speaker.text.strip():
                                said.setdefault((play, speaker.text.strip().upper()), []).extend(lines)
        except (*DAMAGE, ElementTree.ParseError) as error:
            raise broken(path, str(error)) from error
    if not said:
        raise DataError(f"{path} holds no plays: it needs XML files with SPEECH elements")
    return {role: " ".join(" ".join(lines).split()) for role, lines in said.items()}


def windows(text: str) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """All samples of a text: 80 characters (n, 80), and the next one (n,)."""
    places = np.full(256, -1, dtype=np.int8)
    places[np.frombuffer(ALPHABET.encode("latin-1"), np.uint8)] = np.arange(len(ALPHABET))
    codes = places[np.frombuffer(text.encode("latin-1", "replace"), np.uint8)]
    if (codes < 0).any():
        raise DataError(f"the text has '{text[int(np.argmax(codes < 0))]}', which is not one of the 80 symbols")
    if len(codes) <= WINDOW:
        return np.empty((0, WINDOW), np.int8), np.empty(0, np.int64)
    view = np.lib.stride_tricks.sliding_window_view(codes, WINDOW)[:-1]
    return view.copy(), codes[WINDOW:].astype(np.int64)


def _spoken(line: ElementTree.Element) -> str:
    """The words of a line without its stage directions."""
    return (line.text or "") + "".join(child.tail or "" for child in line)
