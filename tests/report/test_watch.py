"""`feddc watch`: the page of a running experiment, for this machine only."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

import feddc
from feddc.report.watch import HOST, Watched, serve
from tests.report.runs import write_run


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    write_run(tmp_path / "runs" / "a", done=3)
    with serve(tmp_path / "runs", 0) as found:
        thread = Thread(target=found.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def get(server: ThreadingHTTPServer, path: str, host: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection(HOST, server.server_address[1])
    try:
        connection.request("GET", path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_it_follows_the_runs(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    code, page = get(server, "/")
    assert (code, 'data-live="yes"' in page) == (200, True)
    code, before = get(server, "/body")
    assert "3 of 20" in before
    write_run(tmp_path / "more", done=9)
    (tmp_path / "more" / "records.jsonl").replace(tmp_path / "runs" / "a" / "records.jsonl")
    assert "9 of 20" in get(server, "/body")[1]


def test_only_this_machine_and_only_the_page(server: ThreadingHTTPServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert get(server, "/body", "evil.example:80")[0] == 403
    assert get(server, "/body", "localhost:80")[0] == 200
    assert get(server, "/../config.toml")[0] == 404


def test_an_experiment_without_a_round_is_waited_for(tmp_path: Path) -> None:
    run = write_run(tmp_path / "<i>" / "a", done=1)
    (run / "records.jsonl").write_text("")
    text = Watched(tmp_path / "<i>").body()
    assert text.startswith("<p>Waiting: ")
    assert "<i>" not in text


def test_a_folder_is_waited_for(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "later")
    assert "there is no folder" in watched.body()
    (tmp_path / "later").mkdir()
    assert "it is empty" in watched.body()
    write_run(tmp_path / "later" / "a", done=3)
    assert "3 of 20" in watched.body()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(feddc.RunError, match="is not a folder"):
        Watched(tmp_path / "file")


@pytest.mark.parametrize("package", ["plotly.offline", "jinja2"])
def test_without_the_extra_it_is_refused_in_a_sentence(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(feddc.ConfigError, match=r"which is not installed: pip install 'feddc\[report\]'"):
        serve(tmp_path, 0)
