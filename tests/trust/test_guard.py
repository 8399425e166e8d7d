"""Guarded rounds: whatever is done to updates, clients and server agree, and an option does what it promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

import feddc
from feddc.algorithms import METHODS as REGISTRY, make_method
from feddc.algorithms.server import ExP
from feddc.engine.cohorts import Bernoulli, FixedSize, Given
from feddc.engine.guarding import draws_of
from feddc.errors import ConfigError
from feddc.trust.privacy import Draws, make_privacy, planned
from tests.conftest import FAST, make_federation

METHODS = [feddc.FedAvg(), feddc.Scaffold(), feddc.FedDyn(alpha=0.1), feddc.FedDC(alpha=0.1)]
SITES: list[dict[str, Any]] = [  # all that is done without noise on the sums
    {"robust": "norm:0.7"},
    {"robust": "trimmed-mean:0.2"},
    {"robust": "trimmed-mean:0.2:mean"},
    {"robust": "median"},
    {"robust": "norm:1:from=2", "attack": "sign-flip:1:from=2:until=2"},
    {"robust": "centered-clip:0.8"},
    {"robust": "norm:1", "attack": "sign-flip:1"},
    {"attack": "little:1"},
    {"attack": "labels:1", "robust": "median"},
    {"secure": "simulated:bits=8:range=0.5"},
    {"secure": "simulated"},
    {"privacy": "local:clip=0.2:noise=0.1"},
    {"privacy": "local:clip=0.2:noise=0.1", "robust": "norm:1"},
    {"privacy": "local:clip=0.05:noise=0", "secure": "simulated:bits=12:range=0.2"},
]


def run(algorithm: Any, sizes: list[int], rounds: int = 3, **options: Any) -> feddc.Simulation:
    torch.manual_seed(0)
    simulation = feddc.Simulation(
        algorithm, nn.Linear(6, 3), make_federation(sizes), rounds=rounds, training=FAST, **options
    )
    list(simulation.run())
    return simulation


def agrees(simulation: feddc.Simulation, atol: float = 1e-5) -> None:
    """The server's drift is the mean of the clients', its variate the weighted mean of theirs."""
    state = simulation.store.gather(range(len(simulation.weights)))
    if hasattr(simulation.server, "drift"):
        scale = float(state.drift.abs().max())
        torch.testing.assert_close(
            simulation.server.drift, state.drift.mean(dim=0), rtol=1e-4, atol=atol * max(1.0, scale)
        )
    if hasattr(simulation.server, "variate") and hasattr(state, "variate"):  # FedCM's is the server's alone
        plain = getattr(simulation.algorithm, "form", "") == "original"  # SCAFFOLD's own
        weighted = (1 if plain else simulation.weights) * state.variate
        scale = float(weighted.abs().max())
        torch.testing.assert_close(
            simulation.server.variate, weighted.mean(dim=0), rtol=1e-4, atol=atol * max(1.0, scale)
        )


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(METHODS),
    st.sampled_from(SITES),
    st.lists(st.integers(3, 25), min_size=3, max_size=6),
    st.sampled_from([1.0, 0.6]),
    st.sampled_from([0.0, 0.3]),
    st.integers(0, 100),
)
def test_clients_and_server_agree(
    algorithm: Any, guard: dict[str, Any], sizes: list[int], participation: float, dropout: float, seed: int
) -> None:
    agrees(run(algorithm, sizes, participation=participation, dropout=dropout, seed=seed, **guard))


@pytest.mark.parametrize("name", REGISTRY)
def test_every_registered_method_can_be_guarded(name: str) -> None:
    """FedExP's server optimiser reads how far clients disagree, which masks hide; FedSMOO sends two vectors."""
    for guard in ({"robust": "trimmed-mean:0.2", "attack": "sign-flip:1"}, {"secure": "simulated"}):
        if name == "fedexp" and "secure" in guard:
            continue
        if name == "fedsmoo":
            with pytest.raises(feddc.ConfigError, match=r"fedsmoo sends more than its update \(delta, dual\)"):
                run(make_method(name), [6, 9, 12, 9], rounds=2, **guard)
            continue
        agrees(run(make_method(name), [6, 9, 12, 9], rounds=2, participation=0.7, **guard))


@pytest.mark.parametrize("algorithm", METHODS[1:])
def test_clients_that_remember_what_they_sent_do_not_agree(algorithm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law is not one that holds anyway: without the guard's feedback it is broken."""
    import feddc.engine.rounds as rounds

    real = rounds.guarded

    def forgetful(*args: Any) -> Any:
        for each in real(*args):
            yield each._replace(delta=each.delta * 1.5)

    class Shorter(rounds.Sums):
        def add(self, upload: Any, *rest: Any) -> None:
            super().add(upload._replace(delta=upload.delta / 1.5), *rest)

    monkeypatch.setattr(rounds, "guarded", forgetful)
    monkeypatch.setattr(rounds, "Sums", Shorter)
    with pytest.raises(AssertionError):
        agrees(run(algorithm, [10, 10, 10], robust="norm:1"))


def test_without_options_nothing_is_guarded() -> None:
    assert run(feddc.FedAvg(), [5, 5, 5]).guard is None


def test_a_rule_that_changes_nothing_gives_the_same_result() -> None:
    for algorithm in METHODS:
        plain = run(algorithm, [9, 14, 6, 11])
        guarded = run(algorithm, [9, 14, 6, 11], robust="norm:1000", secure=None)
        torch.testing.assert_close(guarded.server.model, plain.server.model)
        rounded = run(algorithm, [9, 14, 6, 11], secure="simulated:bits=30:range=4")
        torch.testing.assert_close(rounded.server.model, plain.server.model, rtol=1e-4, atol=1e-5)


def norms(algorithm: Any, **options: Any) -> float:
    return float(torch.linalg.vector_norm(run(algorithm, [12] * 5, rounds=6, **options).server.model))


@pytest.mark.parametrize("algorithm", METHODS, ids=str)
def test_one_attacker_of_five_is_held(algorithm: Any) -> None:
    honest = norms(algorithm)
    assert norms(algorithm, attack="scale:1:size=9e4") > 10 * honest
    for rule in ("norm:1", "trimmed-mean:0.2", "median", "centered-clip:1"):
        assert norms(algorithm, attack="scale:1:size=9e4", robust=rule) < 3 * honest, rule


def test_an_attack_and_a_rule_have_their_rounds() -> None:
    """Until the first attacked round nothing differs from a run without a guard, to the last bit."""

    def models(**options: Any) -> list[torch.Tensor]:
        simulation = feddc.Simulation(
            feddc.FedDC(), nn.Linear(6, 3), make_federation([8] * 5), rounds=5, training=FAST, **options
        )
        torch.manual_seed(0)
        return [simulation.server.model.clone() for _ in simulation.run()]

    torch.manual_seed(0)
    state = torch.get_rng_state()
    found = []
    for options in ({}, {"attack": "sign-flip:1:from=3:until=4"}, {"robust": "median:from=4"}):
        torch.set_rng_state(state)
        found.append(models(**options))
    plain, attacked, filtered = found
    assert all(torch.equal(plain[i], attacked[i]) for i in (0, 1))
    assert not torch.allclose(plain[2], attacked[2])
    assert all(torch.equal(plain[i], filtered[i]) for i in (0, 1, 2))
    assert not torch.equal(plain[3], filtered[3])
    with pytest.raises(ConfigError, match="labels are learned wrong in every round"):
        models(attack="labels:1:from=2")


def test_attackers_of_labels_train_on_other_labels() -> None:
    plain, flipped = (run(feddc.FedAvg(), [9, 9, 9], **each) for each in ({}, {"attack": "labels:1"}))
    assert not torch.allclose(plain.server.model, flipped.server.model)
    assert torch.equal(plain.federation.y, flipped.federation.y)  # what is evaluated and shown is not changed


def test_central_noise_is_what_was_planned_and_epsilon_is_in_the_records() -> None:
    """Clients that stand still leave the server's noise alone: its deviation is σ C / (K c̄)."""
    torch.manual_seed(0)
    model = nn.Linear(200, 30)
    options: dict[str, Any] = {"rounds": 4, "epsilon": 4.0, "delta": 1e-4, "privacy": "central:clip=0.5", "seed": 3}
    still = feddc.LocalTraining(epochs=1, lr=1e-12, weight_decay=0)
    federation = make_federation([5, 8, 11, 20], features=200, classes=30)
    simulation = feddc.Simulation(feddc.FedAvg(), model, federation, training=still, **options)
    before = simulation.server.model.clone()
    record = simulation.step()
    noise = planned(make_privacy("central:clip=0.5"), Draws(4, 4, True, False), 4, 4.0, 1e-4)
    moved = simulation.server.model - before
    assert float(moved.std()) == pytest.approx(noise * 0.5 / 4, rel=0.05)
    assert record.epsilon is not None
    assert 0 < record.epsilon < 4
    *_, last = simulation.run()
    assert last.round == 4
    assert 3.9 < last.epsilon <= 4.0
    again = feddc.Simulation(feddc.FedAvg(), model, federation, training=still, **options)
    again.step()
    assert torch.equal(again.server.model - before, moved)


def test_a_round_without_anybody_is_noise_alone() -> None:
    simulation = run(feddc.FedDC(), [5, 5], rounds=6, participation=0.1, privacy="central:noise=1", seed=1)
    assert simulation.round == 6
    empty = [r for r in range(1, 7) if not len(simulation.cohorts.draw(1, r))]
    assert empty  # which without privacy would have been drawn again


def test_a_federation_of_one_client_can_have_central_noise() -> None:
    quiet, loud = (run(feddc.FedDC(), [12], rounds=2, privacy=f"central:clip=0.5:noise={n}") for n in (0, 1))
    assert quiet.round == loud.round == 2
    assert not torch.allclose(quiet.server.model, loud.server.model)


def test_the_budget_ends_a_run_before_it_is_exceeded() -> None:
    options: dict[str, Any] = {"privacy": "central:noise=1.5", "epsilon": 6.0, "participation": 0.5}
    simulation = run(feddc.FedAvg(), [5] * 8, rounds=200, **options)
    assert 1 < simulation.round < 200
    assert simulation.guard is not None
    assert simulation.guard.budget is not None
    assert (
        simulation.guard.budget.epsilon(simulation.round) <= 6.0 < simulation.guard.budget.epsilon(simulation.round + 1)
    )


class Undecided(feddc.FedAvg):
    """Looks at its weight, and sends its update all the same."""

    def upload(self, sent: Any, client: Any, local: Any, weight: torch.Tensor) -> tuple[Any, Any]:
        upload, after = super().upload(sent, client, local, weight)
        return upload._replace(delta=upload.delta * weight / weight), after


def test_who_adds_nothing_to_a_noisy_round_is_one_client() -> None:
    options: dict[str, Any] = {"rounds": 2, "privacy": "central:clip=0.5:noise=1", "seed": 3}
    plain, other = (run(method, [8, 9, 10], **options).server.model for method in (feddc.FedAvg(), Undecided()))
    torch.testing.assert_close(plain, other)


def test_everybody_is_enough_for_distributed_noise() -> None:
    options: dict[str, Any] = {"rounds": 1, "training": FAST, "cohort_size": 3, "privacy": "distributed:noise=1"}
    [record] = feddc.simulate(feddc.FedAvg(), nn.Linear(6, 3), make_federation([8] * 3), **options)
    assert (record.participants, record.rejected) == ((0, 1, 2), ())


def test_only_cohorts_that_are_drawn_save_privacy() -> None:
    given = Given(np.array([[True, True, True, False], [False, True, False, False]]))
    assert draws_of(given, 4) == draws_of(given, 4, empty=False) == Draws(4, 2.0, False, False)
    assert draws_of(Bernoulli(4, 0.25), 4) == Draws(4, 1.0, True, False)
    assert draws_of(Bernoulli(4, 0.25), 4, empty=False) == Draws(4, 1.0, False, False)
    assert draws_of(FixedSize(4, 3), 4) == draws_of(FixedSize(4, 3), 4, empty=False) == Draws(4, 3, True, True)


def test_rounds_that_were_taken_back_stay_spent() -> None:
    simulation = feddc.Simulation(
        feddc.FedAvg(), nn.Linear(6, 3), make_federation([5] * 8), rounds=200, participation=0.5, training=FAST,
        privacy="central:noise=1.5", epsilon=6.0, evaluate_every=1000,
    )  # fmt: skip
    assert simulation.guard is not None
    budget = simulation.guard.budget
    assert budget is not None
    first = simulation.step()
    assert (first.epsilon, first.accuracy) == (budget.epsilon(1), None)
    most = next(rounds for rounds in range(1, 200) if not budget.allows(rounds + 1))
    simulation.undone = most - 1
    assert not simulation.within_budget
    simulation.undone = most - 2
    assert simulation.within_budget
    [last] = simulation.run()
    assert (last.round, last.epsilon) == (2, budget.epsilon(most))
    assert last.accuracy is not None  # the last round that the budget allows is evaluated


def test_a_round_of_feddc_costs_what_a_round_of_fedavg_does() -> None:
    """The same noise on the same one vector: model, drift and variate are computed from it and from nothing else."""
    spent, noises = [], []
    for algorithm in METHODS:
        simulation = run(algorithm, [8] * 4, rounds=2, privacy="central:clip=0.3:noise=1.1", seed=5)
        assert simulation.guard is not None
        spent.append(simulation.guard.spent(2))
        quiet = run(algorithm, [8] * 4, rounds=1, privacy="central:clip=0.3:noise=0", seed=5)
        loud = run(algorithm, [8] * 4, rounds=1, privacy="central:clip=0.3:noise=1.1", seed=5)
        names = [n for n in loud.server._fields if n != "opt"]
        noises.append({n: getattr(loud.server, n) - getattr(quiet.server, n) for n in names})
    assert len(set(spent)) == 1
    fedavg = noises[0]["model"]
    for each in noises[1:]:
        for name, noise in each.items():  # every field that a method has moves along the one noise vector
            assert abs(float(torch.cosine_similarity(noise, fedavg, dim=0))) > 0.9999, name


def test_two_sums_are_noisier_for_the_same_cost() -> None:
    """Clients of other sizes: FedDC's second weight is another sum, and both get √2 times the noise."""
    equal, other = ([8, 8, 8, 8], [8, 16, 24, 40])
    found = []
    for sizes in (equal, other):
        quiet, loud = (
            run(feddc.FedDC(), sizes, rounds=1, privacy=f"central:clip=0.3:noise={n}", seed=5) for n in (0, 1.1)
        )
        found.append((loud.server.drift - quiet.server.drift, loud.server.variate - quiet.server.variate))
    assert abs(float(torch.cosine_similarity(*found[0], dim=0))) > 0.9999
    assert abs(float(torch.cosine_similarity(*found[1], dim=0))) < 0.9
    ratio = torch.linalg.vector_norm(found[1][0]) / torch.linalg.vector_norm(found[0][0])
    assert float(ratio) == pytest.approx(2**0.5, rel=1e-3)


def test_distributed_noise_needs_everybody() -> None:
    simulation = run(
        feddc.FedDC(), [8] * 4, privacy="distributed:noise=0.5", dropout=0.5, on_bad_update="reject", seed=1
    )
    assert simulation.guard is not None
    torch.manual_seed(0)
    fresh = feddc.Simulation(
        feddc.FedDC(), nn.Linear(6, 3), make_federation([8] * 4), rounds=5, training=FAST, seed=1,
        privacy="distributed:noise=0.5", dropout=0.5, on_bad_update="reject",
    )  # fmt: skip
    before = fresh.server.model.clone()
    for record in fresh.run():
        if len(record.participants) + len(record.rejected) < 4:
            assert not record.participants
            assert all("noise of 4 clients is needed" in each.reason for each in record.rejected)
            assert torch.equal(fresh.server.model, before)
        before = fresh.server.model.clone()
    agrees(fresh)


def test_bytes_are_those_of_the_four_exchanges() -> None:
    from feddc.trust.secure.messages import Session, session_of
    from tests.trust.sessions import run_session

    sent: dict[int, int] = {}

    def count(_exchange: int, client: int, message: bytes) -> bytes:
        sent[client] = sent.get(client, 0) + len(message)
        return message

    session = Session(session_of("bytes"), ((21, 32),))
    run_session(session, {n: [np.zeros(21, dtype=np.int64)] for n in range(4)}, tamper=count)
    torch.manual_seed(0)
    arguments: dict[str, Any] = {"rounds": 1, "training": FAST, "secure": "simulated"}
    (record,) = feddc.simulate(feddc.FedDC(), nn.Linear(6, 3), make_federation([8] * 4), **arguments)
    assert record.bytes_up == sum(sent.values())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"robust": "median", "secure": "simulated"}, "secure hides single updates"),
        ({"robust": "median", "epsilon": 8.0}, "it goes with privacy=local only"),
        ({"privacy": "central"}, "privacy needs noise=… or epsilon"),
        ({"delta": 1e-5}, "delta has no effect"),
        ({"attack": "sign-flip:3"}, "attack has 3 of 3 clients"),
        ({"privacy": "distributed:noise=1", "participation": 0.5}, "cohorts of a fixed size"),
        ({"privacy": "central:noise=0.05", "epsilon": 0.1}, "one round alone costs more"),
        ({"robust": "mediann"}, "did you mean 'median'"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        run(feddc.FedAvg(), [5, 5, 5], **options)


def test_what_cannot_be_covered_is_refused() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    for what, options in (("privacy", {"epsilon": 8.0}), ("secure", {"secure": "simulated"})):
        with pytest.raises(ConfigError, match=f"^{what} does not cover buffers such as BatchNorm's"):
            feddc.Simulation(feddc.FedAvg(), model, make_federation([5, 5, 5]), rounds=1, **options)
        with pytest.raises(ConfigError, match=f"reads how far clients disagree, which {what} hides"):
            run(feddc.FedDC(server=ExP()), [5, 5, 5], **options)
    run(feddc.FedDC(server=ExP()), [5, 5, 5], rounds=1, privacy="local:clip=1:noise=0.1")  # which hides nothing of that
    with pytest.raises(ConfigError, match="sends more than its update"):
        run(feddc.FedDC(form="paper"), [5, 5, 5], robust="median")
