"""Every client's own truth: held-out samples, validation, and each client's score in the records."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import feddc
from feddc.engine.records import ClientScores, Record
from feddc.study.rundir import read_records
from tests.conftest import FAST, make_federation


def held(share: float = 0.25, **options: Any) -> feddc.Federation:
    return make_federation([20, 13, 30, 9, 17, 1]).hold_out(share, **options)


def test_every_sample_is_trained_on_or_held_out_once() -> None:
    whole, part = make_federation([20, 13, 30, 9, 17, 1]), held(0.25, validation=0.1)
    assert part.held is not None
    assert part.validation is not None
    rows = [torch.cat(list(part.clients)), torch.cat(list(part.held)), part.validation]
    assert sorted(torch.cat(rows).tolist()) == list(range(len(whole.y)))
    assert [len(each) for each in part.held] == [5, 3, 8, 2, 4, 0]  # one sample is none to spare
    for mine, all_mine in zip(part.held, whole.clients, strict=True):
        assert set(mine.tolist()) <= set(all_mine.tolist())
    again = held(0.25, validation=0.1)
    assert torch.equal(again.validation if again.validation is not None else torch.empty(0), part.validation)
    assert not torch.equal(torch.cat(list(held(0.25, seed=1).held or ())), torch.cat(list(held(0.25).held or ())))


@pytest.mark.parametrize("executor", ["in-process", "vectorised", "workers"])
def test_scores_are_those_of_the_model_on_each_client_s_own_samples(executor: str, model: nn.Module) -> None:
    federation = held(validation=0.1)
    workers = 2 if executor == "workers" else None
    result = feddc.train(
        feddc.FedDC(), model, federation, rounds=2, training=FAST, executor=executor, workers=workers, personal=True
    )
    record = result.records[-1]
    assert record.clients is not None
    assert federation.held is not None
    predicted = result.model(federation.x).argmax(dim=1) == federation.y
    wanted = [float(predicted[rows].float().mean()) if len(rows) else None for rows in federation.held]
    assert record.clients.scores == pytest.approx(wanted)
    known = [each for each in wanted if each is not None]
    assert record.clients.mean == pytest.approx(np.mean(known))
    assert record.clients.std == pytest.approx(np.std(known))
    assert record.clients.worst == pytest.approx(min(known))
    assert record.validation is not None
    assert record.validation["accuracy"] == pytest.approx(float(predicted[federation.validation].float().mean()))
    assert record.personal is not None
    assert record.personal.scores[5] is None


def test_a_client_s_own_model_is_the_one_that_it_trains(model: nn.Module) -> None:
    """With one client, the personal model after round t is the global model after round t + 1."""
    federation = make_federation([40]).hold_out(0.5)
    training = feddc.LocalTraining(epochs=2, batch_size=None, lr=0.05, lr_decay=1.0)
    options: Any = {"rounds": 3, "training": training, "personal": True, "executor": "in-process"}
    records = feddc.train(feddc.FedAvg(), model, federation, **options).records
    for now, later in pairwise(records):
        assert now.personal is not None
        assert later.clients is not None
        assert now.personal.scores == later.clients.scores


def test_where_to_evaluate(model: nn.Module) -> None:
    federation = held()
    for where in ("server", "clients", "both"):
        [record] = feddc.train(feddc.FedAvg(), model, federation, rounds=1, training=FAST, evaluate=where).records
        assert (record.clients is None) == (where == "server")
        assert federation.test is not None
        samples = len(federation.test[1]) if where != "clients" else sum(map(len, federation.held or ()))
        assert round(record.metrics["accuracy"] * samples, 6) % 1 == 0


def test_the_worst_tenth_follows_the_direction() -> None:
    values = [float(i) for i in range(20)]
    up, down = (ClientScores.of(values, feddc.Score("s", higher)) for higher in (True, False))
    assert up is not None
    assert down is not None
    assert (up.worst, down.worst) == (0.5, 18.5)
    assert ClientScores.of([None, None], feddc.Score()) is None


def test_records_keep_them(tmp_path: Path, model: nn.Module) -> None:
    import dataclasses
    import json

    [record] = feddc.train(feddc.FedAvg(), model, held(validation=0.1), rounds=1, training=FAST, personal=True).records
    (tmp_path / "records.jsonl").write_text(json.dumps(dataclasses.asdict(record)) + "\n")
    assert read_records(tmp_path / "records.jsonl") == (record,)
    assert isinstance(record, Record)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"evaluate": "clients"}, "evaluate='clients' needs samples that clients hold out"),
        ({"personal": True}, "personal=True needs samples that clients hold out"),
        ({"evaluate": "nowhere"}, "unknown evaluate 'nowhere': choose from both, clients, server"),
    ],
)
def test_nothing_to_evaluate_on(options: dict[str, Any], sentence: str, model: nn.Module) -> None:
    with pytest.raises(feddc.ConfigError, match=sentence):
        feddc.train(feddc.FedAvg(), model, make_federation([5, 5]), rounds=1, **options)


def test_given_samples_are_held_out() -> None:
    x, y = np.zeros((10, 2)), np.arange(10) % 2
    options: Any = {"clients": [[0, 1, 2], [5, 6]]}
    federation = feddc.Federation.from_arrays(x, y, holdout=[[3, 4], [7]], **options)
    assert [rows.tolist() for rows in federation.held or ()] == [[3, 4], [7]]
    for holdout, sentence in [
        ([[2], [7]], "trained on or held out twice"),
        ([[3]], "of 1 clients"),
        ([[3], [10]], "0..9"),
    ]:
        with pytest.raises(feddc.DataError, match=sentence):
            feddc.Federation.from_arrays(x, y, holdout=holdout, **options)
    with pytest.raises(feddc.ConfigError, match="leave a tenth"):
        feddc.Federation.from_arrays(x, y, holdout=0.5, validation=0.5, **options)
