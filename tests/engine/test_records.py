"""Records: what goes through JSON comes back, and what is read off them is what they say."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from torch import nn

import feddc
from feddc.engine.records import ClientScores, Record, Rejected, Result, Site, score_in
from feddc.tasks import Score

ERROR = Score("error", higher_is_better=False)
FULL = Record(
    3,
    {"error": 2.5, "loss": 0.25},
    (0, 2),
    100,
    200,
    1.5,
    rejected=(Rejected(1, "NaN or Inf"),),
    dropped=(4,),
    sites=(Site(0, 12, {"samples": 3.0, "error": 2.0}, 0.5, 0.25, 1.25, 10, 20),),
    epsilon=1.5,
    score=ERROR,
    clients=ClientScores((1.0, None, 3.0), 2.0, 1.0, 3.0),
    personal=ClientScores((0.5, None, 1.5), 1.0, 0.5, 1.5),
    validation={"error": 2.25},
)


def at(round: int, **metrics: float) -> Record:
    return Record(round, metrics, (0,), 10 * round, round, 1.0)


def through_json(record: Record) -> Record:
    return Record.from_json(json.loads(json.dumps(asdict(record))))


@pytest.mark.parametrize("record", [FULL, at(1, accuracy=0.5)], ids=["full", "plain"])
def test_a_record_comes_back_from_json(record: Record) -> None:
    assert through_json(record) == record


def test_a_record_of_version_0_1_is_read() -> None:
    old: dict[str, Any] = {"round": 1, "participants": [0, 1], "bytes_up": 1, "bytes_down": 2, "seconds": 0.5}
    assert Record.from_json({**old, "accuracy": 0.75, "loss": None}) == Record(1, {"accuracy": 0.75}, (0, 1), 1, 2, 0.5)
    with pytest.raises(KeyError):
        Record.from_json(old)


def test_what_a_record_says() -> None:
    assert (Site(0, 12).bytes_up, Site(0, 12).bytes_down) == (0, 0)
    assert (FULL.value, FULL.loss, FULL.accuracy) == (2.5, 0.25, None)
    assert (at(1, accuracy=0.5).value, at(1).value, at(1).loss) == (0.5, None, None)


def test_scores_of_clients() -> None:
    scores: list[float | None] = [None, *(each / 10 for each in range(10, -1, -1))]  # 11 clients have one
    found = ClientScores.of(scores, Score())
    assert found is not None
    assert (found.mean, found.std, found.worst) == (pytest.approx(0.5), pytest.approx(0.1**0.5), pytest.approx(0.05))
    lower = ClientScores.of(scores, ERROR)
    assert lower is not None
    assert lower.worst == pytest.approx(0.95)  # of an error, the largest are the worst
    assert lower.scores == tuple(scores)
    assert ClientScores.of([None, None], Score()) is None
    one = ClientScores.of([0.25], Score())
    assert one == ClientScores((0.25,), 0.25, 0.0, 0.25)


def test_what_a_result_says() -> None:
    records = (at(1, accuracy=0.5, loss=2.0), at(2), at(3, accuracy=0.75), at(4, accuracy=0.7), at(5, accuracy=0.9))
    result = Result(records, nn.Identity())
    assert (result.best, result.best_accuracy) == (0.9, 0.9)
    assert (result.rounds_to(0.5), result.rounds_to(0.75), result.rounds_to(0.8), result.rounds_to(1)) == (
        1,
        3,
        5,
        None,
    )
    assert (result.bytes_to(0.75), result.bytes_to(1)) == (66, None)
    with pytest.raises(feddc.FedDCError, match=r"target must be a share, at most 1: 95 % is 0\.95"):
        result.rounds_to(95)
    with pytest.raises(feddc.FedDCError, match=r"1\.5 % is 0\.015"):
        result.rounds_to(1.5)
    nothing = Result((), nn.Identity())
    assert (nothing.best, nothing.best_accuracy, nothing.rounds_to(0.5)) == (None, None, None)
    assert score_in(()) == Score()


def test_an_error_is_reached_from_above() -> None:
    records = tuple(Record(i, {"error": value}, (0,), 1, 1, 1.0, score=ERROR) for i, value in [(1, 9.0), (2, 3.0)])
    result = Result(records, nn.Identity())
    assert (result.best, result.rounds_to(3.0), result.rounds_to(2.9)) == (3.0, 2, None)
