"""Members that come and go, and sample counts that change: what the server keeps stays a mean over all members."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

import feddc
from feddc.engine.membership import over_all, resized, restarted, reweighed, sizes_of
from feddc.engine.rounds import Sums
from feddc.models import Buffers
from feddc.types import Cohort, Local, LocalResult
from tests.conftest import FAST, make_federation

P = 4
METHODS = [
    feddc.FedDC(alpha=0.1),
    feddc.FedDC(alpha=0.1, correction=False),
    feddc.FedDyn(alpha=0.1),
    feddc.Scaffold(),
    feddc.Scaffold(form="feddc"),
]
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("round"), st.integers(0, 2**16)),
        st.tuples(st.just("join"), st.integers(1, 40)),
        st.tuples(st.just("count"), st.integers(1, 40)),
        st.tuples(st.just("leave"), st.integers(0, 5)),
    ),
    min_size=1,
    max_size=12,
)


class World:
    """A server and its members, by the rules that Flower's server follows; local training is a random vector."""

    def __init__(self, algorithm: Any) -> None:
        self.algorithm, self.next = algorithm, 3
        self.server = algorithm.init_server(torch.zeros(P, dtype=torch.float64))
        self.samples = {0: 10, 1: 20, 2: 7}
        self.states = {client: self.zero() for client in self.samples}
        self.random = torch.Generator().manual_seed(0)

    def zero(self) -> Any:
        state = self.algorithm.init_client(torch.zeros(P, dtype=torch.float64))
        return type(state)(*(field.unsqueeze(0) for field in state))

    def weight(self, client: int) -> torch.Tensor:
        return torch.tensor([[self.samples[client] / sizes_of(self.samples).mean]], dtype=torch.float64)

    def move(self, samples: dict[int, int]) -> None:
        self.server = resized(self.algorithm, self.server, sizes_of(self.samples), sizes_of(samples))
        self.samples = samples

    def join(self, n: int) -> None:
        self.states[self.next] = self.zero()
        self.move({**self.samples, self.next: n})
        self.next += 1

    def count(self, n: int) -> None:
        client = sorted(self.samples)[n % len(self.samples)]
        self.states[client] = reweighed(self.algorithm, self.states[client], self.samples[client], n)
        self.move({**self.samples, client: n})

    def leave(self, which: int) -> None:
        if len(self.samples) > 1:
            gone = sorted(self.samples)[which % len(self.samples)]
            self.samples = {client: n for client, n in self.samples.items() if client != gone}
            self.server = restarted(self.algorithm, self.server)
            self.states = {client: self.zero() for client in self.samples}

    def round(self, chosen: int) -> None:
        cohort = [client for place, client in enumerate(sorted(self.samples)) if chosen >> place & 1]
        if not cohort:
            return
        sums, sent = Sums(), self.algorithm.broadcast(self.server)
        plan: dict[str, Any] = {"round": 1, "nominal": 3, "lr": 0.5, "rate": 0.5}
        for client in cohort:
            delta = torch.randn(1, P, generator=self.random, dtype=torch.float64)
            steps = torch.full((1, 1), 1.0 + client % 3, dtype=torch.float64)
            local = LocalResult(delta=delta, steps=steps, **plan)
            weight = self.weight(client)
            upload, self.states[client] = self.algorithm.upload(sent, self.states[client], local, weight)
            none = Buffers(torch.zeros(1, 0), torch.zeros(1, 0, dtype=torch.int64))
            sums.add(upload, none, weight, self.algorithm.weigh(Local(steps=steps, **plan), weight))
        means, _ = sums.means(Buffers(torch.zeros(0), torch.zeros(0, dtype=torch.int64)))
        present = Cohort(participation=len(cohort) / len(self.samples), size=len(cohort), **plan)
        self.server = self.algorithm.aggregate(self.server, means, present)

    def check(self) -> None:
        for name, weighted in over_all(self.algorithm).items():
            rows = [
                getattr(self.states[client], name)[0] * (self.weight(client)[0] if weighted else 1.0)
                for client in self.samples
            ]
            torch.testing.assert_close(getattr(self.server, name), torch.stack(rows).mean(0), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("algorithm", METHODS, ids=str)
@given(events=EVENTS)
@settings(max_examples=40, deadline=None)
def test_the_servers_means_are_those_of_its_members(algorithm: Any, events: list[tuple[str, int]]) -> None:
    world = World(algorithm)
    world.round(7)
    for name, value in events:
        getattr(world, name)(value)
        world.check()


def mask_of(rounds: int, clients: int, away: dict[int, list[int]]) -> np.ndarray:  # type: ignore[type-arg]
    mask = np.ones((rounds, clients), dtype=bool)
    for client, when in away.items():
        mask[[round - 1 for round in when], client] = False
    return mask


@pytest.mark.parametrize("algorithm", [*METHODS, feddc.FedAvg()], ids=str)
@pytest.mark.parametrize("sampling", [{}, {"participation": 0.6}, {"cohort_size": 3}])
def test_a_simulation_with_arrivals_keeps_the_law(algorithm: Any, sampling: dict[str, Any]) -> None:
    federation = make_federation([20, 13, 30, 9, 17])
    mask = mask_of(7, 5, {4: [1, 2], 3: [1, 6, 7], 0: [4, 5, 6, 7]})
    torch.manual_seed(0)
    model = nn.Linear(6, 3).double()
    run = feddc.Simulation(
        algorithm, model, federation, rounds=7, training=FAST, arrivals=mask, executor="in-process", **sampling
    )
    for record in run.run():
        members = np.flatnonzero(mask[record.round - 1]).tolist()
        assert set(record.participants) <= set(members)
        assert sampling or list(record.participants) == members
        states = run.store.gather(members)
        weights = federation.sizes[members] / federation.sizes[members].mean()
        for name, weighted in over_all(algorithm).items():
            rows = getattr(states, name) * (torch.tensor(weights)[:, None] if weighted else 1.0)
            torch.testing.assert_close(getattr(run.server, name), rows.mean(0), rtol=1e-5, atol=1e-6)


def test_of_given_cohorts_those_who_are_members_take_part() -> None:
    cohorts = np.array([[1, 1, 0], [0, 1, 1], [1, 1, 1]])
    federation, arrivals = make_federation([20, 13, 30]), mask_of(3, 3, {1: [1], 2: [1, 2]})
    options: dict[str, Any] = {"rounds": 3, "training": FAST, "cohorts": cohorts, "arrivals": arrivals}
    records = list(feddc.simulate(feddc.FedDC(), nn.Linear(6, 3), federation, **options))
    assert [record.participants for record in records] == [(0,), (1,), (0, 1, 2)]


def test_everybody_from_the_beginning_is_as_without_arrivals() -> None:
    federation = make_federation([20, 13, 30])
    found = []
    for arrivals in (None, np.ones((3, 3))):
        torch.manual_seed(0)
        run = feddc.Simulation(
            feddc.FedDC(), nn.Linear(6, 3), federation, rounds=3, participation=0.6, training=FAST, arrivals=arrivals,
            executor="in-process",
        )  # fmt: skip
        list(run.run())
        found.append(run.server.model)
    assert torch.equal(*found)


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        (np.ones((2, 3)), r"arrivals must be a mask of shape \(3 rounds, 3 clients\)"),
        ([[1, 1], [1]], r"arrivals must be a mask of shape \(3 rounds, 3 clients\)"),
        (np.full((3, 3), 2), "of true and false"),
        ([[1, 1, 1], [0, 0, 0], [1, 1, 1]], "arrivals has no member in round 2"),
    ],
)
def test_arrivals_that_are_none(mask: Any, sentence: str) -> None:
    with pytest.raises(feddc.ConfigError, match=sentence):
        feddc.Simulation(feddc.FedDC(), nn.Linear(6, 3), make_federation([20, 13, 30]), rounds=3, arrivals=mask)


def test_nobody_has_no_samples_on_average() -> None:
    assert sizes_of({}) == (0, 0.0)
    assert sizes_of({3: 10, 7: 20}) == (2, 15.0)
