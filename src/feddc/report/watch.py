"""A running experiment's page, for this machine only: the report, made anew whenever a file of the runs changes."""

from __future__ import annotations

from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

from ..errors import FedDCError, RunError
from .lines import arrange
from .page import body, check_installed, page
from .runs import collect, directories

HOST = "127.0.0.1"


class Watched:
    """The runs in a folder as the inside of a page, made again when they have changed."""

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise RunError(f"{folder} is not a folder")
        check_installed()  # said here in a sentence, not in the handler of every request
        self.folder = folder
        self._lock, self._seen, self._body = Lock(), "", ""

    def body(self) -> str:
        with self._lock:
            try:
                seen = self._signature()
                if seen != self._seen:
                    self._body, self._seen = body(arrange(collect([self.folder]))), seen
            except (
                FedDCError,
                FileNotFoundError,
            ) as error:  # nothing yet, or a cell renamed as it was read
                self._seen = ""
                return f"<p>Waiting: {escape(str(error))}.</p>"
            return self._body

    def page(self) -> str:
        return page(self.body(), f"feddc watch: {self.folder.name}", live=True)

    def _signature(self) -> str:
        files = [file for each in directories(self.folder) for file in sorted(each.glob("*.json*"))]
        return repr([(str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files])


def serve(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of the folder's page on this machine's own address; ``serve_forever`` starts it."""
    watched = Watched(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers = {"/": watched.page, "/body": watched.body}
            if self.headers.get("Host", "").partition(":")[0] not in (HOST, "localhost"):
                self.send_error(403)  # another site's name that points here: not the reader's own browser tab
            elif self.path not in answers:
                self.send_error(404)
            else:
                content = answers[self.path]().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the terminal shows where the page is, not who asked for it."""

    return ThreadingHTTPServer((HOST, port), Handler)
