"""A site's record of what it sent: every message, by names, shapes and hashes."""

from __future__ import annotations

import hashlib
import io
import json
import stat
from pathlib import Path

import numpy as np
from flwr.app import Message

import feddc
from tests.flower.test_faults import EVERYONE, grid_of
from tests.flower.test_parity import coordinator


def test_everything_that_a_site_sent_is_on_record_and_no_value_is(tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, rounds=2, **EVERYONE)
    sent: list[Message] = []

    def keep(client: int, reply: Message) -> Message:
        if client == 2:
            sent.append(reply)
        return reply

    grid_of(run).tamper = keep
    list(run.run())
    path = tmp_path / "clients" / "sent-2.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["asked"], line["round"]) for line in lines] == [("query", ""), ("train", "1"), ("train", "2")]
    assert len(lines) == len(sent)
    for line, reply in zip(lines, sent, strict=True):
        arrays = dict(reply.content["arrays"])
        assert {each["name"]: each["sha256"] for each in line["arrays"]} == {
            name: hashlib.sha256(array.data).hexdigest() for name, array in arrays.items()
        }
        assert line["settings"] == sorted(reply.content["config"])
        assert set(line) == {"time", "run", "asked", "round", "settings", "arrays"}
    saved = io.BytesIO()
    np.save(saved, sent[1].content["arrays"]["delta"].numpy())
    assert lines[1]["arrays"][0]["sha256"] == hashlib.sha256(saved.getvalue()).hexdigest()  # as docs/runbook.md says
    assert lines[1]["arrays"][0]["shape"] == [83]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
