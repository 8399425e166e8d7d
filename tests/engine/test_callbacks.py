"""Callbacks are told of the start, of every record, and of the end, however it comes."""

from __future__ import annotations

import pytest
from torch import nn

import feddc
from tests.conftest import FAST


class Diary(feddc.Callback):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_start(self, simulation: feddc.Simulation) -> None:
        self.lines.append(f"start {simulation.rounds}")

    def on_record(self, record: feddc.Record) -> None:
        self.lines.append(f"round {record.round}")

    def on_end(self) -> None:
        self.lines.append("end")


def test_a_whole_run(federation: feddc.Federation, model: nn.Module) -> None:
    diary = Diary()
    feddc.train(feddc.FedAvg(), model, federation, rounds=2, training=FAST, callbacks=[diary, feddc.Callback()])
    assert diary.lines == ["start 2", "round 1", "round 2", "end"]


def test_a_run_that_is_left_early(federation: feddc.Federation, model: nn.Module) -> None:
    diary = Diary()
    for _ in feddc.simulate(feddc.FedAvg(), model, federation, rounds=9, training=FAST, callbacks=[diary]):
        break
    assert diary.lines == ["start 9", "round 1", "end"]


def test_a_run_that_diverges(federation: feddc.Federation, model: nn.Module) -> None:
    diary = Diary()
    wild = feddc.LocalTraining(lr=1e30, clip_norm=None)
    with pytest.raises(feddc.DivergedError):
        feddc.train(feddc.FedAvg(), model, federation, rounds=9, training=wild, callbacks=[diary])
    assert diary.lines == ["start 9", "end"]


def test_what_a_callback_raises_ends_the_run(federation: feddc.Federation, model: nn.Module) -> None:
    class Fails(feddc.Callback):
        def on_record(self, record: feddc.Record) -> None:
            raise OSError("disk full")

    diary = Diary()
    with pytest.raises(OSError, match="disk full"):
        feddc.train(feddc.FedAvg(), model, federation, rounds=9, training=FAST, callbacks=[diary, Fails()])
    assert diary.lines[-1] == "end"
