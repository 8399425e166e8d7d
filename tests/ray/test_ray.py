"""The Ray executor on a cluster of two nodes on this machine: the bits of the workers, also when actors are lost."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn

import feddc
from feddc.engine.executors import InProcess, Workers, choose
from feddc.engine.local.kernel import Job
from feddc.options import Compute
from tests.engine.test_executors import corrections, dense, job, outcome, start, with_buffers_and_noise

ray = pytest.importorskip("ray")
from feddc.engine.executors.ray import RayExecutor  # noqa: E402

# Ray's own processes leave files and sockets to the garbage collector when they are shut down.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Two nodes of one core each."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    node = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    cluster.add_node(**node)
    yield cluster.address
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def spread(address: str) -> Iterator[RayExecutor]:
    executor = RayExecutor(job(with_buffers_and_noise(), [7, 25, 2, 13, 30]), address)
    yield executor
    executor.close()


@pytest.mark.parametrize("which", range(7))
def test_ray_gives_the_bits_of_workers(spread: RayExecutor, which: int) -> None:
    begin = start(spread.job.module)
    correction = corrections(4, begin.model.numel())[which]
    workers = Workers(spread.job, 2)
    expected = outcome(workers, [0, 1, 3, 4], begin, correction)
    workers.close()
    for got, want in zip(outcome(spread, [0, 1, 3, 4], begin, correction), expected, strict=True):
        assert torch.equal(got, want)


def test_both_nodes_are_used(spread: RayExecutor) -> None:
    nodes = {each["NodeID"] for each in ray.nodes() if each["Alive"]}
    assert len(nodes) == 2
    assert spread.count == 2


def test_ray_evaluates_to_the_same_bits(spread: RayExecutor) -> None:
    begin = start(spread.job.module)
    blocks = spread.job.federation.blocks("test")
    assert spread.measure(begin, blocks) == InProcess(spread.job).measure(begin, blocks)


def test_the_chunk_of_a_lost_actor_is_done_again(spread: RayExecutor) -> None:
    """Two actors, of which one is killed before each round."""
    begin = start(spread.job.module)
    correction = corrections(4, begin.model.numel())[1]
    expected = outcome(InProcess(spread.job), [0, 1, 3, 4], begin, correction)
    for _ in range(2):
        os.kill(ray.get(spread._idle[-1].pid.remote()), signal.SIGKILL)
        for got, want in zip(outcome(spread, [0, 1, 3, 4], begin, correction), expected, strict=True):
            assert torch.equal(got, want)


@pytest.fixture
def free(spread: RayExecutor, address: str) -> str:
    """The cluster with its two cores free for another executor."""
    spread.close()
    return address


def test_a_simulation_on_a_cluster(free: str) -> None:
    options: dict[str, object] = {
        "rounds": 3,
        "participation": 0.6,
        "training": feddc.LocalTraining(epochs=2, batch_size=6),
    }
    federation = job(dense()).federation
    plain = feddc.Simulation(feddc.FedDC(), dense(), federation, executor="in-process", **options)  # type: ignore[arg-type]
    other = feddc.Simulation(
        feddc.FedDC(),
        dense(),
        federation,
        executor="ray",
        ray_address=free,
        **options,  # type: ignore[arg-type]
    )
    assert other.executor_reason == "2 Ray actors, as asked"
    expected, found = list(plain.run()), list(other.run())
    assert torch.equal(plain.server.model, other.server.model)
    assert [(r.accuracy, r.loss, r.participants) for r in found] == [
        (r.accuracy, r.loss, r.participants) for r in expected
    ]
    assert other.evaluate().metrics == expected[-1].metrics  # after the end it starts actors again
    other.executor.close()
    other.executor.close()


def test_errors_of_our_own_keep_their_class(free: str) -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    lonely = feddc.Federation.from_arrays(np.zeros((4, 3)), np.arange(4), sizes=[1, 1, 1, 1])
    executor = RayExecutor(Job(module, lonely, feddc.LocalTraining(), 0, None), free)
    with pytest.raises(feddc.DataError, match="BatchNorm"):
        outcome(executor, [0], start(module), corrections(1, 20)[0])


def test_the_users_errors_are_reported_with_the_client(free: str) -> None:
    words = feddc.Federation.from_arrays(np.arange(40)[:, None], np.arange(40) % 4, sizes=[10] * 4)
    module = nn.Sequential(nn.Embedding(11, 4), nn.Flatten())
    executor = RayExecutor(Job(module, words, feddc.LocalTraining(epochs=1), 0, None), free)
    with pytest.raises(feddc.WorkerError, match="failed while it trained client 1 in round 3: IndexError: "):
        outcome(executor, [1], start(module), corrections(1, 44)[0])


def test_the_automatic_choice_is_never_ray() -> None:
    for module in (dense(), with_buffers_and_noise()):
        choice = choose(job(module), 10**9, 4)
        choice.executor.close()
        assert not isinstance(choice.executor, RayExecutor)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ray_address": "auto"}, "ray_address='auto' needs executor='ray', not 'auto'"),
        ({"executor": "ray", "workers": 2}, "workers=2 cannot be combined with executor='ray'"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(feddc.ConfigError, match=re.escape(sentence)):
        choose(job(dense()), 1, 4, Compute(**options))  # type: ignore[arg-type]
