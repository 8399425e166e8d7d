"""Download one file over HTTP: with progress, and continuing where an earlier attempt was cut off."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from ...errors import DataError

OnProgress = Callable[[str, int, int | None], None]
"""Called with what is being fetched, the bytes so far, and the bytes in all if known."""

SECONDS = 10.0  # without an answer or a byte; short, so that an unreachable host soon gives way to the next origin
ATTEMPTS = 5


def download(url: str, target: Path, progress: OnProgress) -> None:
    """Fetch ``url`` into ``target``; what is there already is taken as its beginning.

    A cut connection is taken up again a few times; when that fails too, ``target`` keeps the beginning for the next
    call. Whether the content is right is for the caller to check.
    """
    for _ in range(ATTEMPTS):
        if _attempt(url, target, progress):
            return
    raise DataError(f"the connection to {urlsplit(url).hostname} was cut again and again")


def _attempt(url: str, target: Path, progress: OnProgress) -> bool:
    """Whether the file is whole now; False if the connection was cut after some of it."""
    have = target.stat().st_size if target.exists() else 0
    headers = {"User-Agent": "feddc"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=SECONDS)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and have:  # nothing follows what we have: it is whole, or not the beginning of this
                whole = error.headers.get("Content-Range") == f"bytes */{have}"
                if not whole:
                    target.unlink()
                return whole
            raise DataError(f"{url} answers {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise DataError(f"{urlsplit(url).hostname} cannot be reached ({_reason(error)})") from error
    with response:
        if response.status != 206 or not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            have = 0  # the server sends all of it: start over
        length = response.headers.get("Content-Length")
        total = have + int(length) if length and length.isdigit() else None
        name = Path(urlsplit(url).path).name
        with target.open("ab" if have else "wb") as out:
            while True:
                progress(name, have, total)
                try:
                    chunk = response.read(1 << 18)
                except (OSError, http.client.HTTPException):
                    return False
                if not chunk:
                    return total is None or have >= total
                out.write(chunk)
                have += len(chunk)


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", error)
    return getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
