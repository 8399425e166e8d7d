"""The loop over rounds: records, cohorts, bytes, randomness, buffers, divergence, and what is refused."""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import feddc
from feddc.engine.local.batches import batches, given_steps, steps_column
from tests.conftest import FAST, make_federation

ALL = [feddc.FedAvg(), feddc.FedProx(mu=0.1), feddc.Scaffold(), feddc.FedDyn(alpha=0.1), feddc.FedDC(alpha=0.1)]
ALL += [feddc.FedAdam(), feddc.FedYogi(), feddc.FedAdagrad(), feddc.FedDC(alpha=0.01, server=feddc.Yogi(lr=0.01))]


def vector(model: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach()


@pytest.mark.parametrize("algorithm", ALL, ids=repr)
def test_every_method_learns(algorithm: Any, federation: feddc.Federation, model: nn.Module) -> None:
    result = feddc.train(algorithm, model, federation, rounds=25, participation=0.6, training=FAST)
    assert result.best_accuracy is not None
    assert result.best_accuracy > 0.8
    assert [r.round for r in result.records] == list(range(1, 26))


def test_records(federation: feddc.Federation, model: nn.Module) -> None:
    before, began = copy.deepcopy(model.state_dict()), time.perf_counter()
    records = list(feddc.simulate(feddc.FedAvg(), model, federation, rounds=5, training=FAST, evaluate_every=2))
    assert sum(r.seconds for r in records) < time.perf_counter() - began
    assert [r.accuracy is not None for r in records] == [False, True, False, True, True]
    assert all(r.participants == (0, 1, 2, 3, 4) and r.seconds > 0 for r in records)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_result_model_is_the_global_model(federation: feddc.Federation, model: nn.Module) -> None:
    result = feddc.train(feddc.FedDC(), model, federation, rounds=4, training=FAST)
    assert federation.test is not None
    x, y = federation.test
    accuracy = float((result.model(x).argmax(dim=1) == y).float().mean())
    assert result.records[-1].accuracy == pytest.approx(accuracy)
    assert type(result.model) is type(model)
    first = result.rounds_to(0.5)
    assert first is not None
    assert result.bytes_to(0.5) == sum(r.bytes_up + r.bytes_down for r in result.records[:first])
    assert result.rounds_to(1.0) is None is result.bytes_to(1.0)


@pytest.mark.parametrize(
    ("algorithm", "up", "down"),
    [
        (feddc.FedAvg(), 1, 1),
        (feddc.FedProx(), 1, 1),
        (feddc.FedDyn(), 1, 1),
        (feddc.FedAdam(), 1, 1),
        (feddc.Scaffold(), 1, 2),
        (feddc.FedDC(), 1, 2),
        (feddc.FedDC(form="paper"), 2, 2),
        (feddc.FedDC(correction=False), 1, 1),
    ],
    ids=repr,
)
def test_bytes_are_what_has_to_move(
    algorithm: Any, up: int, down: int, federation: feddc.Federation, model: nn.Module
) -> None:
    [record] = feddc.simulate(algorithm, model, federation, rounds=1, cohort_size=3, training=FAST)
    one = 4 * vector(model).numel()
    assert (record.bytes_up, record.bytes_down) == (3 * up * one, 3 * down * one)


def test_bernoulli_cohorts_are_redrawn_while_empty(model: nn.Module) -> None:
    federation = make_federation([4] * 10)
    records = list(feddc.simulate(feddc.FedAvg(), model, federation, rounds=60, participation=0.15, training=FAST))
    sizes = [len(r.participants) for r in records]
    assert min(sizes) >= 1
    assert 1.2 < np.mean(sizes) < 2.4
    assert len(set(sizes)) > 2


def test_cohort_size_and_mask(federation: feddc.Federation, model: nn.Module) -> None:
    fixed = list(feddc.simulate(feddc.FedAvg(), model, federation, rounds=8, cohort_size=2, training=FAST))
    assert all(len(set(r.participants)) == 2 for r in fixed)
    assert len({r.participants for r in fixed}) > 2
    mask = np.array([[1, 0, 0, 0, 1], [0, 1, 1, 1, 0]])
    given = list(feddc.simulate(feddc.FedAvg(), model, federation, rounds=2, cohorts=mask, training=FAST))
    assert [r.participants for r in given] == [(0, 4), (1, 2, 3)]


def test_cohorts_are_the_same_for_every_method(federation: feddc.Federation, model: nn.Module) -> None:
    options: dict[str, Any] = {"rounds": 5, "participation": 0.4, "training": FAST, "seed": 9}
    runs = [[r.participants for r in feddc.simulate(a, model, federation, **options)] for a in ALL]
    assert all(run == runs[0] for run in runs)


def test_the_seed_decides_everything(federation: feddc.Federation) -> None:
    model = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, 3))
    outcomes = []
    for seed, noise in ((1, 0), (1, 123), (2, 0)):
        torch.manual_seed(noise)  # the global stream must not matter
        outcome = feddc.train(feddc.FedDC(), model, federation, rounds=3, participation=0.5, training=FAST, seed=seed)
        outcomes.append(vector(outcome.model))
    assert torch.equal(outcomes[0], outcomes[1])
    assert not torch.equal(outcomes[0], outcomes[2])


def test_a_client_trains_the_same_in_any_company(federation: feddc.Federation, model: nn.Module) -> None:
    """Randomness is keyed by client and round, not drawn in turn."""
    deltas = []
    for mask in ([[1, 0, 0, 0, 0]], [[1, 1, 1, 1, 1]]):
        simulation = feddc.Simulation(
            feddc.FedDyn(), model, federation, rounds=1, cohorts=np.array(mask), training=FAST, executor="in-process"
        )
        simulation.step()
        deltas.append(simulation.store.gather([0]).drift)
    assert torch.equal(*deltas)


def test_chunks_do_not_change_the_meaning(
    federation: feddc.Federation, model: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = feddc.train(feddc.FedDC(), model, federation, rounds=3, training=FAST)
    monkeypatch.setattr("feddc.engine.executors.base.CHUNK_BYTES", 2 * 4 * vector(model).numel())
    parts = feddc.train(feddc.FedDC(), model, federation, rounds=3, training=FAST)
    torch.testing.assert_close(vector(whole.model), vector(parts.model))


def test_batch_norm_is_averaged_as_fedavg_would(federation: feddc.Federation) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    result = feddc.train(feddc.FedDC(), model, federation, rounds=6, training=FAST)
    assert (result.best_accuracy or 0) > 0.6
    norm = result.model[1]
    assert norm.num_batches_tracked.dtype == torch.int64
    assert int(norm.num_batches_tracked) == 6 * 2 * 4  # rounds × epochs × batches of the largest client
    assert norm.running_mean.abs().sum() > 0
    one_round = feddc.Simulation(feddc.FedAvg(), model, federation, rounds=1, training=FAST)
    [trained] = one_round.executor.train(
        range(5),
        feddc.engine.simulation.Start(1, one_round.server.model, one_round.buffers),
        lambda _: feddc.Correction(),
    )
    record = one_round.step()
    weighted = (one_round.weights * trained.buffers.floats).sum(dim=0) / one_round.weights.sum()
    torch.testing.assert_close(one_round.buffers.floats, weighted)
    assert record.bytes_up == 5 * (4 * vector(model).numel() + 4 * 16 + 8)


def test_batch_norm_survives_a_last_batch_of_one(model: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    feddc.train(feddc.FedAvg(), model, make_federation([9, 17]), rounds=1, training=FAST)
    with pytest.raises(feddc.DataError, match="one sample"):
        feddc.train(feddc.FedAvg(), model, make_federation([9, 1]), rounds=1, training=FAST)


def test_full_batch_takes_one_step_an_epoch(federation: feddc.Federation, model: nn.Module) -> None:
    training = feddc.LocalTraining(epochs=3, batch_size=None)
    assert training.nominal_steps(federation.sizes) == 3
    assert FAST.nominal_steps(federation.sizes) == 2 * 3  # mean 17.8, batch 8
    feddc.train(feddc.Scaffold(), model, federation, rounds=1, training=training)


def test_the_trained_model_is_ready_to_predict(federation: feddc.Federation) -> None:
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, 3))
    result = feddc.train(feddc.FedDC(), model, federation, rounds=3, training=FAST)
    assert federation.test is not None
    x, y = federation.test
    assert result.records[-1].accuracy == pytest.approx(float((result.model(x).argmax(dim=1) == y).float().mean()))


def test_a_frozen_batch_norm_stays_as_it_is(federation: feddc.Federation) -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    model[:2].requires_grad_(False)
    result = feddc.train(feddc.FedAvg(), model, federation, rounds=2, training=FAST)
    assert torch.equal(result.model[1].running_mean, model[1].running_mean)
    assert result.records[0].bytes_up == 5 * 4 * (8 * 3 + 3)  # only what is trained is sent


def test_tied_weights(federation: feddc.Federation) -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3))
    model[2].weight = model[0].weight
    trained = feddc.train(feddc.FedDC(), model, federation, rounds=2, training=FAST).model
    assert torch.equal(trained[0].weight, trained[2].weight)


def test_without_a_test_set_there_is_no_accuracy(model: nn.Module) -> None:
    full = make_federation([20, 20])
    bare = feddc.Federation.from_arrays(full.x, full.y, sizes=[20, 20])
    result = feddc.train(feddc.FedAvg(), model, bare, rounds=2, training=FAST)
    assert result.records[-1].accuracy is None is result.best_accuracy


def test_double_precision_models(federation: feddc.Federation, model: nn.Module) -> None:
    result = feddc.train(feddc.FedDC(), model.double(), federation, rounds=2, training=FAST)
    assert vector(result.model).dtype == torch.float64


class Poison(nn.Module):
    """Gives NaN for clients whose samples carry the mark."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layer(x)
        return out * torch.where(x.abs().amax(dim=1, keepdim=True) > 1e5, torch.nan, 1.0)


def test_a_diverging_client_is_named_and_not_averaged_in(federation: feddc.Federation) -> None:
    x = federation.x.clone()
    x[federation.clients[3]] = 1e6
    federation = feddc.Federation.from_arrays(x, federation.y, sizes=federation.sizes)
    simulation = feddc.Simulation(
        feddc.FedDC(), Poison(), federation, rounds=3, cohorts=np.eye(5)[[0, 3, 1]], training=FAST
    )
    simulation.step()
    good = simulation.server.model.clone()
    with pytest.raises(feddc.DivergedError, match="feddc diverged: client 3 has NaN or Inf in round 2") as caught:
        simulation.step()
    assert (caught.value.round, caught.value.client, caught.value.method) == (2, 3, "feddc")
    assert torch.equal(simulation.server.model, good)


def test_a_diverging_run_is_reported(federation: feddc.Federation, model: nn.Module) -> None:
    wild = feddc.LocalTraining(epochs=5, batch_size=4, lr=1e20, clip_norm=None)
    with pytest.raises(feddc.DivergedError, match="round 1"):
        feddc.train(feddc.FedAvg(), model, federation, rounds=3, training=wild)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rounds": 0}, "rounds must be a whole number, 1 or more"),
        ({"participation": 0.0}, "participation must be above 0"),
        ({"participation": 1.5}, "at most 1"),
        ({"participation": 0.5, "cohort_size": 2}, "only one of"),
        ({"cohort_size": 6}, "only 5 clients"),
        ({"cohorts": np.ones((2, 5))}, r"shape \(3 rounds, 5 clients\)"),
        ({"cohorts": np.zeros((3, 5))}, "nobody in round 1"),
        ({"cohorts": np.full((3, 5), 2)}, "true and false"),
        ({"seed": -1}, "seed must be"),
        ({"evaluate_every": 0}, "evaluate_every must be"),
        ({"model": nn.Linear(7, 3)}, r"does not accept samples of shape \(6,\)"),
        ({"model": nn.Linear(6, 2)}, "the data has 3 classes"),
        ({"model": "fcn"}, "must be a torch.nn.Module"),
        ({"cohorts": [[0, 1], [2]]}, "must be a mask"),
        ({"training": {"lr": 0.1}}, "training must be a feddc.LocalTraining"),
    ],
)
def test_bad_arguments_are_refused_at_the_call(
    options: dict[str, Any], words: str, federation: feddc.Federation, model: nn.Module
) -> None:
    arguments = {"model": model, "rounds": 3} | options
    with pytest.raises(feddc.ConfigError, match=words):
        feddc.simulate(feddc.FedAvg(), arguments.pop("model"), federation, **arguments)


@pytest.mark.parametrize("server", ["yogi", feddc.Yogi])
def test_a_server_that_is_no_optimiser_is_refused(federation: feddc.Federation, server: Any) -> None:
    with pytest.raises(feddc.ConfigError, match="server must be a server optimiser"):
        feddc.Simulation(feddc.FedDC(server=server), nn.Linear(6, 3), federation, rounds=1)


def test_a_model_with_lazy_layers_is_refused_until_it_has_seen_a_batch(federation: feddc.Federation) -> None:
    model = nn.LazyLinear(3)
    with pytest.raises(feddc.ConfigError, match="lazy layers"):
        feddc.Simulation(feddc.FedDC(), model, federation, rounds=1)
    model(federation.x[:2])
    assert len(list(feddc.simulate(feddc.FedDC(), model, federation, rounds=1, training=FAST))) == 1


def test_the_state_can_be_kept_before_and_after_a_round_and_not_within_one(federation: feddc.Federation) -> None:
    model = nn.Linear(6, 3)
    run = feddc.Simulation(feddc.FedDC(), model, federation, rounds=3, training=FAST, executor="in-process")
    first = run.state()
    run.step()
    kept, rows = run.state(), run.store.gather(range(5))
    assert not torch.equal(first["server.model"], kept["server.model"])
    again = feddc.Simulation(feddc.FedDC(), model, federation, rounds=3, training=FAST, executor="in-process")
    again.restore(1, kept)
    again.store.scatter(range(5), rows)
    assert torch.equal(run.state()["server.model"], again.state()["server.model"])
    run.step()
    again.step()
    assert torch.equal(run.state()["server.model"], again.state()["server.model"])
    run.evaluate = None  # type: ignore[assignment, method-assign]
    with pytest.raises(TypeError):
        run.step()
    with pytest.raises(feddc.RunError, match="round 3 was not finished"):
        run.state()


@pytest.mark.parametrize("size", [12, 6, 4])
def test_passes_are_shuffled_anew_unless_they_are_one_batch(size: int) -> None:
    training = feddc.LocalTraining(epochs=3, batch_size=size)
    passes = batches(12, training, np.random.default_rng(0)).order.reshape(3, 12).tolist()
    assert all(sorted(each) == list(range(12)) for each in passes)
    assert len({tuple(each) for each in [range(12), *passes]}) == (1 if size == 12 else 4)


@pytest.mark.parametrize(
    ("samples", "steps", "smallest", "lengths"),
    [
        (12, 4, 1, [5, 5, 2, 5]),
        (12, None, 1, [5, 5, 2] * 2),
        (11, None, 1, [5, 5, 1] * 2),
        (11, None, 2, [5, 6] * 2),
        (6, None, 2, [6] * 2),
        (2, 1, 2, [2]),
    ],
)
def test_a_batch_that_is_too_small_joins_the_one_before_it(
    samples: int, steps: int | None, smallest: int, lengths: list[int]
) -> None:
    training = feddc.LocalTraining(epochs=2, batch_size=5)
    found = batches(samples, training, np.random.default_rng(0), steps, smallest)
    assert [len(each) for each in found] == lengths
    assert len(found) == len(lengths)


def test_steps_follow_from_samples_also_for_a_client_that_cannot_train() -> None:
    norm, training = nn.BatchNorm1d(3), feddc.LocalTraining(epochs=2, batch_size=5)
    sizes = np.array([11, 1, 12, 11])
    assert steps_column(sizes, training, norm, None).tolist() == [[4], [2], [6], [4]]
    assert steps_column(sizes, training, nn.Linear(3, 3), None).tolist() == [[6], [2], [6], [6]]
    assert steps_column(sizes, training, norm, 7).tolist() == [[7]] * 4


def test_steps_are_those_given_and_at_least_one() -> None:
    assert given_steps([[1, 0, 3], [2, 5, 0]], 2, 3).tolist() == [[1, 1, 3], [2, 5, 1]]
    assert given_steps(np.full((3, 1), 4, dtype=np.uint8), 2, 1).tolist() == [[4], [4], [4]]
    for bad in ([[1, 2]], [[1, 2, 3]], [[1.0, 2, 3]] * 2, [1, 2, 3], [[1, 2, -1]] * 2):
        with pytest.raises(feddc.ConfigError, match="steps must"):
            given_steps(bad, 2, 3)
