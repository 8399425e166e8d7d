"""Every executor does what the plain one does."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import feddc
from feddc.algorithms import METHODS as REGISTRY, make_method
from feddc.engine.cost import step_flops
from feddc.engine.evaluation import Evaluation
from feddc.engine.executors import Executor, InProcess, Vectorised, Workers, choose, vectorised
from feddc.engine.executors.base import chunk_size, moved, one_thread, part_size
from feddc.engine.executors.choose import usable_cores
from feddc.engine.executors.shared import SharedMemory
from feddc.engine.executors.vectorised import check_rows
from feddc.engine.local.kernel import Job, Start
from feddc.engine.local.losses import own_loss
from feddc.engine.local.rows import RowTrainer
from feddc.models import FlatModel
from feddc.options import Compute
from feddc.types import Correction

SIZES = [7, 25, 1, 12, 30]
METHODS = [
    *map(make_method, REGISTRY),
    feddc.FedProx(mu=0.1),
    feddc.FedDC(alpha=0.1, server=feddc.Adam()),
    feddc.FedLESAM(base="scaffold"),
    feddc.FedLESAM(base="feddyn"),
]


def federation(sizes: list[int] = SIZES) -> feddc.Federation:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(sum(sizes), 2, 3)).astype(np.float32)
    y = rng.integers(4, size=sum(sizes))
    test = rng.normal(size=(2300, 2, 3)).astype(np.float32), rng.integers(4, size=2300)
    return feddc.Federation.from_arrays(x, y, sizes=sizes, test=test)


def dense() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))


def with_buffers_and_noise() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 4))


def job(module: nn.Module, sizes: list[int] = SIZES, steps: int | None = None, **training: object) -> Job:
    return Job(module, federation(sizes), feddc.LocalTraining(epochs=2, batch_size=6, **training), 5, steps)  # type: ignore[arg-type]


def measured(executor: Executor, begin: Start) -> list[Evaluation]:
    job: Job = executor.job  # type: ignore[attr-defined]
    return executor.measure(begin, job.federation.blocks("test"))


def start(module: nn.Module, round: int = 3) -> Start:
    model = FlatModel(module)
    return Start(round, model.params, model.buffers())


def corrections(rows: int, params: int) -> list[Correction]:
    linear = torch.randn(rows, params, generator=torch.Generator().manual_seed(2))
    column = torch.rand(rows, 1, generator=torch.Generator().manual_seed(3))
    offset, scale = 0.1 * linear.flip(0), 0.5 + column
    return [
        Correction(),
        Correction(linear, prox=column),
        Correction(linear, decay=column),
        Correction(prox=2e-4),
        Correction(linear, prox=column, scale=scale, start=offset, ahead=offset.flip(1), decay=column),
        Correction(scale=0.3, ahead=offset, decay=0.2),
        Correction(scale=0.3),
        Correction(linear, dual=offset, consensus=0.1 * offset.flip(1)),
        Correction(linear, scale=2.0),
    ]


def rows(correction: Correction, which: list[int]) -> Correction:
    return Correction(*(part[which] if isinstance(part, torch.Tensor) else part for part in correction))


def outcome(executor: Executor, clients: list[int], begin: Start, correction: Correction) -> list[torch.Tensor]:
    found = list(executor.train(clients, begin, lambda some: rows(correction, [clients.index(c) for c in some])))
    duals = [[] if part.dual is None else [part.dual] for part in found]
    columns = ((part.params, *part.buffers, *dual) for part, dual in zip(found, duals, strict=True))
    return [torch.cat(column) for column in zip(*columns, strict=True)]


def records_of(executor: str, algorithm: object, **options: object) -> tuple[list[feddc.Record], torch.Tensor]:
    simulation = feddc.Simulation(
        algorithm,  # type: ignore[arg-type]
        dense(),
        federation(),
        rounds=4,
        participation=0.6,
        training=feddc.LocalTraining(epochs=2, batch_size=6),
        executor=executor,
        **options,  # type: ignore[arg-type]
    )
    return list(simulation.run()), simulation.server.model


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    executor = Workers(job(with_buffers_and_noise(), [7, 25, 2, 13, 30], sam=0.05), 2)
    yield executor
    executor.close()


@pytest.mark.parametrize("which", range(9))
def test_workers_give_the_bits_of_in_process(workers: Workers, which: int) -> None:
    plain = InProcess(workers.job)
    begin = start(workers.job.module)
    correction = corrections(4, begin.model.numel())[which]
    expected = outcome(plain, [0, 1, 3, 4], begin, correction)
    before = torch.get_rng_state()
    for got, want in zip(outcome(workers, [0, 1, 3, 4], begin, correction), expected, strict=True):
        assert torch.equal(got, want)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("rows", [1, 2])
def test_parts_come_in_order_whoever_is_done_first(
    workers: Workers, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = start(workers.job.module)
    monkeypatch.setattr("feddc.engine.executors.base.PART_BYTES", rows * begin.model.nbytes)
    clients = [2, 0, 4, 3, 1]  # not longest first
    plain = list(InProcess(workers.job).train(clients, begin, lambda _: Correction()))
    spread = list(workers.train(clients, begin, lambda _: Correction()))
    assert [len(part.params) for part in plain] == ([1] * 5 if rows == 1 else [2, 2, 1])
    for want, got in zip(plain, spread, strict=True):
        assert torch.equal(want.params, got.params)
        assert all(map(torch.equal, want.buffers, got.buffers))


def test_a_round_left_half_way_does_not_spoil_the_next(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = start(workers.job.module)
    monkeypatch.setattr("feddc.engine.executors.base.PART_BYTES", 1)
    clients = [0, 1, 2, 3, 4]
    left = workers.train(clients, begin, lambda _: Correction(linear=torch.ones(1, begin.model.numel())))
    next(left)
    left.close()
    expected = outcome(InProcess(workers.job), clients, begin, Correction())
    assert all(map(torch.equal, outcome(workers, clients, begin, Correction()), expected))


def test_workers_evaluate_to_the_same_bits(workers: Workers) -> None:
    begin = start(workers.job.module)
    assert measured(workers, begin) == measured(InProcess(workers.job), begin)


def test_workers_can_be_closed_twice_and_used_again(workers: Workers) -> None:
    begin = start(workers.job.module)
    before = measured(workers, begin)
    workers.close()
    workers.close()
    assert measured(workers, begin) == before


@pytest.mark.parametrize("count", [1, 3])
def test_a_simulation_with_any_number_of_workers_is_the_in_process_one(count: int) -> None:
    plain, model = records_of("in-process", feddc.FedDC())
    spread, other = records_of("workers", feddc.FedDC(), workers=count)
    assert [(r.accuracy, r.loss, r.participants) for r in plain] == [
        (r.accuracy, r.loss, r.participants) for r in spread
    ]
    assert torch.equal(model, other)


@pytest.mark.parametrize("count", [1, 3])
def test_a_round_in_many_parts_and_chunks_is_the_in_process_one(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of two rows, chunks of three: the last part of a chunk is shorter."""
    row = FlatModel(dense()).params.nbytes
    monkeypatch.setattr("feddc.engine.executors.base.PART_BYTES", 2 * row)
    monkeypatch.setattr("feddc.engine.rounds.chunk_size", lambda _: 3)
    plain, model = records_of("in-process", feddc.FedDC(), diagnostics=True)
    spread, other = records_of("workers", feddc.FedDC(), workers=count, diagnostics=True)
    assert max(len(record.participants) for record in plain) > 3
    assert [(r.loss, r.participants, r.drift) for r in plain] == [(r.loss, r.participants, r.drift) for r in spread]
    assert torch.equal(model, other)


def test_without_a_test_set_there_is_no_evaluation() -> None:
    bare = feddc.Federation.from_arrays(np.ones((4, 2)), np.arange(4) % 2, sizes=[2, 2])
    module = nn.Linear(2, 2)
    assert measured(InProcess(Job(module, bare, feddc.LocalTraining(), 0, None)), start(module)) == []


@pytest.mark.parametrize("algorithm", METHODS, ids=repr)
def test_vectorised_agrees_with_in_process(algorithm: object) -> None:
    plain, model = records_of("in-process", algorithm)
    rows, other = records_of("vectorised", algorithm)
    torch.testing.assert_close(other, model, rtol=1e-4, atol=1e-6)
    assert [r.participants for r in plain] == [r.participants for r in rows]
    assert rows[-1].loss == pytest.approx(plain[-1].loss, rel=1e-4)


class Gated(nn.Module):
    """Not a Sequential: goes through torch.func. It has a frozen parameter and a buffer that does not change."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.left, self.right = nn.Linear(6, 4), nn.Linear(6, 4)
        self.scale = nn.Parameter(torch.full((4,), 2.0), requires_grad=False)
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(1)
        return self.left(x) * torch.sigmoid(self.right(x)) * self.scale + self.shift


@pytest.mark.parametrize("module", [dense(), Gated(), nn.Sequential(nn.Flatten(), nn.Linear(6, 4, bias=False))])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"clip_norm": 0.05},
        {"clip_norm": None, "weight_decay": 0.0},
        {"steps": 9},
        {"batch_size": None},
        {"augment": True},
        {"sam": 0.2},
        {"momentum": 0.9, "clip_norm": 0.5},
        {"momentum": 0.5, "sam": 0.1, "clip_norm": None},
    ],
    ids=str,
)
def test_rows_take_the_steps_of_single_clients(module: nn.Module, options: dict[str, object]) -> None:
    options = dict(options)
    augment, size = options.pop("augment", False), options.pop("batch_size", 6)
    task = job(module, **options)  # type: ignore[arg-type]
    task = replace(task, training=replace(task.training, batch_size=size))
    if augment:
        task = replace(task, federation=replace(task.federation, augment=jitter))
    begin = start(module)
    for correction in corrections(len(SIZES), begin.model.numel()):
        expected = outcome(InProcess(task), [4, 0, 2, 3, 1], begin, correction)
        found = outcome(Vectorised(task), [4, 0, 2, 3, 1], begin, correction)
        for got, want in zip(found, expected, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)


class Two(nn.Module):
    """Of two inputs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.one, self.other = nn.Linear(6, 4), nn.Linear(5, 4)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.one(left.flatten(1)) * torch.sigmoid(self.other(right))
        return out


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("steps", [None, 1])
def test_rows_of_several_inputs_take_the_steps_of_single_clients(named: bool, steps: int | None) -> None:
    left = federation().x
    right = torch.randn(len(left), 5, generator=torch.Generator().manual_seed(4))
    x = {"left": left, "right": right} if named else (left, right)
    both = feddc.Federation.from_arrays(x, federation().y, sizes=SIZES)
    task = replace(job(Two(), steps=steps), federation=both)
    begin = start(Two())
    expected = outcome(InProcess(task), [4, 0, 2, 3, 1], begin, Correction())
    for got, want in zip(outcome(Vectorised(task), [4, 0, 2, 3, 1], begin, Correction()), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)
    assert not torch.equal(expected[0][0], begin.model)


@pytest.mark.parametrize("norm", [0.0, 1e-7, 1.0])
def test_rows_climb_as_far_as_a_single_client_on_hardly_a_gradient(
    norm: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = RowTrainer(job(dense(), [3, 4], steps=1, sam=0.3), torch.device("cpu"))
    monkeypatch.setattr(trainer, "_gradient", lambda _, grads, __: lambda *_: grads.add_(norm / grads.shape[1] ** 0.5))
    still = torch.zeros(2, start(dense()).model.numel())
    _, climbed = trainer.train([0, 1], start(dense()), Correction(dual=still, consensus=still))
    assert climbed is not None
    assert climbed.norm(dim=1).tolist() == pytest.approx([0.3 * norm / (norm + 1e-7)] * 2, rel=1e-3)


@pytest.mark.parametrize("module", [dense(), Gated()])
def test_a_federation_of_one_sample_is_trained_in_rows(module: nn.Module) -> None:
    begin = start(module)
    expected = outcome(InProcess(job(module, [1])), [0], begin, Correction())
    for got, want in zip(outcome(Vectorised(job(module, [1])), [0], begin, Correction()), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", [feddc.FedLC(), feddc.FedNTD(), feddc.FedDecorr(), feddc.MOON()], ids=repr)
def test_a_local_loss_is_tried_with_the_same_models_in_rows_and_alone(method: object) -> None:
    torch.manual_seed(1)
    layers = [nn.Linear(6, 8), nn.Sigmoid(), nn.Linear(8, 7), nn.Sigmoid(), nn.Linear(7, 4)]
    check_rows(replace(job(nn.Sequential(nn.Flatten(), *layers)), own=own_loss(method)))


def jitter(batch: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    return batch + torch.from_numpy(rng.normal(size=batch.shape).astype(np.float32))


def many(sizes: Sequence[int]) -> Job:
    """Enough clients of a small network that they are trained in several groups."""
    return job(dense(), [*sizes])


@pytest.mark.parametrize("workers", [2, 3])
def test_rows_have_the_same_bits_whatever_the_number_of_processes(workers: int) -> None:
    rng = np.random.default_rng(0)
    task = many(rng.integers(1, 9, size=400).tolist())
    begin, clients = start(task.module), rng.permutation(400)[:390].tolist()
    alone, spread = Vectorised(task), Vectorised(task, workers=workers)
    try:
        assert spread.workers == workers < len(alone.rows.groups(390))
        assert (alone._spread is None, spread._spread is None) == (True, False)
        for correction in corrections(390, begin.model.numel()):
            expected = outcome(alone, clients, begin, correction)
            assert all(map(torch.equal, outcome(spread, clients, begin, correction), expected))
        assert measured(spread, begin) == measured(alone, begin)
    finally:
        spread.close()


@pytest.mark.parametrize("clients", [1, 2, 5, 99, 140, 256, 257, 1000])
def test_groups_follow_from_the_job_alone(clients: int, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Vectorised(many([3] * 4)).rows
    groups = trainer.groups(clients)
    assert [row for group in groups for row in group] == list(range(clients))
    assert max(map(len, groups)) - min(map(len, groups)) <= 1
    assert max(map(len, groups)) <= 256
    assert clients < 2 or min(map(len, groups)) > 1
    monkeypatch.setenv("FEDDC_CORES", "1")
    assert trainer.groups(clients) == groups


def test_vectorised_says_in_how_many_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[choose.__module__]
    monkeypatch.setattr(module, "usable_cores", lambda: 2)
    task = many([5] * 150)  # two groups
    short, long = choose(task, 1, 140), choose(task, 10**6, 140)
    try:
        assert short.reason.startswith("vectorised, because ")
        assert long.reason.startswith("vectorised in 2 worker processes, because ")
        one = choose(task, 10**6, 140, Compute("vectorised", workers=1))
        assert one.reason == "vectorised on cpu, as asked"
        two = choose(task, 1, 140, Compute("vectorised", workers=2))
        assert two.reason == "vectorised on cpu in 2 worker processes, as asked"
        two.executor.close()
        both = choose(task, 10**6, 140, Compute("vectorised"))
        assert both.reason == "vectorised on cpu in 2 worker processes, as asked"
        both.executor.close()
        assert choose(task, 1, 140, Compute("vectorised")).reason == "vectorised on cpu, as asked"
        elsewhere = choose(task, 10**6, 140, Compute("vectorised", device="cpu:0"))
        assert elsewhere.reason == "vectorised on cpu:0, as asked"
    finally:
        long.executor.close()


class Peeking(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.flatten(1) if x.sum() > 0 else -x.flatten(1))


class Mixing(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = super().forward(x.flatten(1))
        return out - out.mean(dim=0)


class HardlyMixing(nn.Linear):
    """A gradient that padding changes by a hundredth."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = super().forward(x.flatten(1))
        return out - 0.02 * out.mean(dim=0)


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        (with_buffers_and_noise(), "torch.func cannot train the model in rows: "),
        (nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.Dropout(0.5)), "torch.func cannot train the model in rows: "),
        (Peeking(6, 4), "torch.func cannot train the model in rows: "),
        (Mixing(6, 4), "the model cannot be trained in rows: it draws at random or mixes a batch's samples"),
        (HardlyMixing(6, 4), "the model cannot be trained in rows: it draws at random or mixes a batch's samples"),
    ],
)
def test_what_cannot_be_vectorised_says_why(module: nn.Module, sentence: str) -> None:
    with pytest.raises(feddc.ConfigError, match="^" + re.escape(sentence)):
        choose(job(module), 1, 4, Compute("vectorised"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"executor": "worker"}, "unknown executor 'worker': did you mean 'workers'?"),
        ({"executor": "workers", "workers": 0}, "workers must be a whole number, 1 or more, not 0"),
        ({"executor": "in-process", "workers": 2}, "workers=2 cannot be combined with executor='in-process'"),
        (
            {"executor": "workers", "device": "meta"},
            "device='meta' needs executor='vectorised' or 'in-process'",
        ),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(feddc.ConfigError) as error:
        choose(job(dense()), 1, 4, Compute(**options))  # type: ignore[arg-type]
    assert str(error.value) == sentence


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(feddc.ConfigError, match=r"^device 'gpu' cannot be used: "):
        choose(job(dense()), 1, 4, Compute(device="gpu"))


def test_without_a_device_the_job_is_used_as_it_is() -> None:
    given = job(dense())
    assert InProcess(given).job is given
    assert InProcess(given, "cpu").job is not given


@pytest.mark.parametrize("executor", ["auto", "in-process"])
def test_a_device_trains_what_rows_cannot(executor: str) -> None:
    """On "cpu:0" everything is moved as to a GPU: BatchNorm and dropout train there, with the plain result."""
    module = with_buffers_and_noise()
    choice = choose(job(module), 1, 4, Compute(executor, device="cpu:0"))
    assert isinstance(choice.executor, InProcess)
    assert choice.executor.device == torch.device("cpu:0")
    assert choice.reason.startswith("in-process on cpu:0, ")
    flat = FlatModel(module)
    start = Start(1, flat.params, flat.buffers())

    def correct(clients: Sequence[int]) -> Correction:
        return Correction(torch.full((len(clients), len(flat.params)), 0.01), prox=0.1)

    found, wanted = (next(each.train([1], start, correct)) for each in (choice.executor, InProcess(job(module))))
    assert torch.equal(found.params, wanted.params)
    assert torch.equal(found.buffers.floats, wanted.buffers.floats)
    assert not torch.equal(found.params[0], flat.params)


def test_small_dense_models_are_vectorised_whatever_the_machine() -> None:
    choice = choose(job(dense()), 1, 4)
    assert isinstance(choice.executor, Vectorised)
    assert choice.reason.startswith("vectorised, because ")


def test_a_short_run_does_not_start_workers() -> None:
    choice = choose(job(with_buffers_and_noise()), 2, 4)
    assert isinstance(choice.executor, InProcess)
    assert choice.reason.startswith("in-process, because the run is too short")


def test_a_long_run_starts_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    module = sys.modules[choose.__module__]  # which the package hides behind its function
    monkeypatch.setattr(module, "Workers", lambda _, count: started.append(count))
    monkeypatch.setattr(module, "usable_cores", lambda: 3)
    task = job(with_buffers_and_noise())
    choice = choose(task, 10**9, 4, Compute(workers=2))
    assert choice.reason == "2 worker processes, to train as many clients at a time"
    assert choose(task, 10**9, 4).reason == "3 worker processes, to train as many clients at a time"
    assert choose(task, 1, 4, Compute("workers", workers=2)).reason == "2 worker processes, as asked"
    assert choose(task, 1, 4, Compute("workers")).reason == "3 worker processes, as asked"
    monkeypatch.setattr(module, "usable_cores", lambda: 100)
    choose(task, 10**9, 4)
    assert started == [2, 3, 2, 3, len(task.federation)]


@pytest.mark.parametrize(
    ("rounds", "cohort", "seconds", "reason"),
    [
        (1, 4.9, 1.0, "in-process, because the run is too short to be worth starting worker processes"),
        (1, 5.1, 1.0, "3 worker processes, to train as many clients at a time"),
        (9, 2.0, 0.3, "3 worker processes, to train as many clients at a time"),
        (9, 2.0, 0.25, "in-process, because the run is too short to be worth starting worker processes"),
    ],
)
def test_workers_are_started_for_five_seconds_of_work(
    rounds: int, cohort: float, seconds: float, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[choose.__module__]
    monkeypatch.setattr(module, "Workers", lambda *_: None)
    monkeypatch.setattr(module, "usable_cores", lambda: 3)
    monkeypatch.setattr(module, "client_seconds", lambda _: seconds)
    assert choose(job(with_buffers_and_noise()), rounds, cohort).reason == reason


@pytest.mark.parametrize(("rounds", "seconds", "processes"), [(1, 4.9, 1), (1, 5.1, 3), (9, 0.6, 3), (9, 0.5, 1)])
def test_rows_are_spread_for_five_seconds_of_work(
    rounds: int, seconds: float, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[choose.__module__]
    monkeypatch.setattr(module, "usable_cores", lambda: 3)
    monkeypatch.setattr(module, "rows_seconds", lambda *_: seconds)
    assert module._worth_starting(job(dense()), rounds, 4) == processes


@pytest.mark.parametrize(("cohort", "kind"), [(1.9, InProcess), (2, Vectorised)])
def test_two_clients_are_enough_to_share_a_step(cohort: float, kind: type) -> None:
    assert isinstance(choose(job(dense()), 1, cohort).executor, kind)


def test_as_many_cores_are_used_as_this_process_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDDC_CORES", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0: {1, 2, 5}}[process])
    assert usable_cores() == 3
    monkeypatch.delattr("os.sched_getaffinity")
    for count, cores in ((6, 6), (None, 1)):
        monkeypatch.setattr("os.cpu_count", lambda count=count: count)
        assert usable_cores() == cores


def test_one_thread_works_and_the_others_come_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_shared_memory_is_seen_by_whoever_has_its_descriptor() -> None:
    layout = {
        "one": (torch.int64, (1,)),
        "none": (torch.float32, (0, 3)),
        "few": (torch.float64, (3, 5)),
        "many": (torch.float32, (7, 33)),
        "last": (torch.uint8, (2,)),
    }
    ours = SharedMemory(layout)
    for place, name in enumerate(layout):
        ours[name].fill_(place + 1)
    theirs = SharedMemory(layout, os.dup(ours.file))
    for place, (name, (kind, shape)) in enumerate(layout.items()):
        assert torch.equal(theirs[name], torch.full(shape, place + 1, dtype=kind))
        assert theirs[name].data_ptr() % 64 == 0  # as torch's own: matrix products may round differently elsewhere
    theirs.close()
    ours.close()
    ours.close()


@pytest.mark.parametrize(
    ("clients", "worth", "device", "sizes"),
    [
        (100, 10.0, "cpu", [50, 50]),  # 1 + 0.2 · 110 / 10 = 3.2: two, and not four
        (100, 2.0, "cpu", [12, 13] * 4),  # 11.2: eight
        (90, 10.0, "cpu", [45, 45]),  # 3.0: two
        (75, 5.0, "cpu", [18, 19, 19, 19]),  # 1 + 0.2 · 80 / 5 = 4.2: four
        (8, 0.1, "cpu", [2, 2, 2, 2]),  # never less than two clients in one
        (3, 0.1, "cpu", [3]),
        (600, 1e9, "cpu", [200, 200, 200]),  # at most 256 at a time
        (100, 2.0, "meta", [100]),
    ],
)
def test_groups_of_rows_follow_from_the_job(clients: int, worth: float, device: str, sizes: list[int]) -> None:
    trainer = RowTrainer(job(dense()), torch.device(device))
    trainer._worth = worth
    groups = trainer.groups(clients)
    assert [len(group) for group in groups] == sizes
    assert [client for group in groups for client in group] == list(range(clients))


def test_rows_are_worth_what_a_step_costs_beside_them() -> None:
    task = job(dense())
    assert RowTrainer(task, torch.device("cpu"))._worth == pytest.approx(25e-6 / (1e-6 + step_flops(task) / 40e9))


def test_rows_stay_here_where_no_worker_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Workers:
        raise feddc.WorkerError("cannot be sent")

    some = job(dense(), [5] * 400)
    assert len(RowTrainer(some, torch.device("cpu")).groups(400)) > 1
    monkeypatch.setattr(vectorised, "Workers", refuse)
    assert Vectorised(some, workers=2).workers == 1


def test_what_a_device_gets_is_in_the_models_type_but_rows_stay_numbers_of_samples() -> None:
    found = moved(job(dense().double()), torch.device("cpu")).federation
    assert isinstance(found.x, torch.Tensor)
    assert (found.x.dtype, found.y.dtype) == (torch.float64, torch.int64)
    assert [rows.tolist() for rows in found.clients] == [rows.tolist() for rows in federation().clients]


def test_how_many_rows_are_worked_on_at_a_time_depends_on_their_size() -> None:
    megabyte = 2**20
    assert [part_size(size) for size in (megabyte // 2, megabyte, 2 * megabyte, 3 * megabyte)] == [4, 2, 1, 1]
    assert [chunk_size(size) for size in (megabyte, 24 * megabyte, 25 * megabyte)] == [96, 4, 4]


def test_the_arithmetic_of_a_simulation_is_named_after_executor_and_device() -> None:
    simulation = feddc.Simulation(feddc.FedAvg(), dense(), federation(), rounds=1, executor="in-process")
    assert simulation.arithmetic == "plain"
    simulation.executor = InProcess(job(dense()), "cpu")
    assert simulation.arithmetic == "in-process on cpu"
    simulation.executor = Vectorised(job(dense()))
    assert simulation.arithmetic == "vectorised on cpu"
