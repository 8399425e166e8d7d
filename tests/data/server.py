"""An HTTP server on loopback that stands in for the official places, and misbehaves on request."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What is served, and how. ``cuts`` holds, for coming answers, after how many bytes each is cut off."""

    files: dict[str, bytes]
    url: str = ""
    cuts: list[int] = field(default_factory=list)
    ranges: bool = True
    status: int = 200
    asked: list[str] = field(default_factory=list)
    """The Range header of every request, or '-'."""


@contextmanager
def serve(files: dict[str, bytes]) -> Iterator[Site]:
    site = Site(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            span = self.headers.get("Range")
            site.asked.append(span or "-")
            body = site.files.get(self.path.lstrip("/"))
            if body is None or site.status != 200:
                self.send_error(404 if body is None else site.status)
                return
            start = int(span.removeprefix("bytes=").rstrip("-")) if span and site.ranges else 0
            if start and start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            rest = body[start:]
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            self.wfile.write(rest[: site.cuts.pop(0)] if site.cuts else rest)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
