"""Privacy, robust rules and secure aggregation over Flower's messages: the simulator's results, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Message
from hypothesis import given, settings, strategies as st

import feddc
from feddc.errors import ConfigError, RunError
from feddc.flower import Settings, client_app
from feddc.flower.client.guarding import site_guard
from feddc.flower.client.memory import ClientMemory
from feddc.flower.server.coordinator import Coordinator
from feddc.flower.states import templates
from feddc.models import Buffers, FlatModel
from tests.flower import task
from tests.flower.fake import FakeGrid
from tests.flower.test_parity import coordinator, simulated

STATEFUL = [feddc.Scaffold(), feddc.FedDyn(alpha=0.1), feddc.FedDC(alpha=0.1)]
ALL: dict[str, Any] = {"participation": None}


def client_states(run: Coordinator, folder: Path) -> list[Any]:
    """The state of every client as the server believes it to be."""
    shape = templates(run.algorithm, FlatModel(task.make_model()))
    states = []
    for client in range(5):
        place = folder / "clients" / run.progress.id / f"client-{client}"
        remembered = ClientMemory(place).recall(run.progress.seen.get(client, 0), shape.client)
        assert not remembered.lost
        states.append(remembered.state)
    return states


def agrees(run: Coordinator, folder: Path) -> None:
    states = client_states(run, folder)
    if hasattr(run.progress.server, "drift"):
        mean = torch.stack([each.drift for each in states]).mean(dim=0)
        torch.testing.assert_close(run.progress.server.drift, mean, rtol=1e-4, atol=1e-6)
    if hasattr(run.progress.server, "variate"):
        weights = torch.ones(5, 1) if isinstance(run.algorithm, feddc.Scaffold) else run.roster.weights
        mean = (weights * torch.stack([each.variate for each in states])).mean(dim=0)
        torch.testing.assert_close(run.progress.server.variate, mean, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("algorithm", [feddc.FedAvg(), *STATEFUL], ids=str)
@pytest.mark.parametrize("bits", [24, 10])
def test_masked_rounds_equal_simulated_ones(algorithm: Any, bits: int, tmp_path: Path) -> None:
    """Clients of five sizes, so that FedDC masks two vectors; the same numbers as rounding without masks."""
    options = f"bits={bits}:range=2"
    run = coordinator(algorithm, tmp_path, secure=f"masked:{options}", **ALL)
    records, (expected, simulation) = list(run.run()), simulated(algorithm, secure=f"simulated:{options}", **ALL)
    torch.testing.assert_close(run.progress.server, simulation.server, rtol=1e-4, atol=1e-5)
    assert [r.bytes_up for r in records] == [r.bytes_up for r in expected]
    assert records[-1].accuracy == expected[-1].accuracy
    agrees(run, tmp_path)
    assert all(site.update is None and site.drift is None for r in records for site in r.sites)


@pytest.mark.parametrize("exchange", ["keys", "shares", "train", "reveal"])
@pytest.mark.parametrize("algorithm", STATEFUL, ids=str)
def test_clients_vanish_in_each_exchange_and_all_still_agree(algorithm: Any, exchange: str, tmp_path: Path) -> None:
    run = coordinator(algorithm, tmp_path, secure="masked:bits=12:range=2", rounds=3, **ALL)
    grid: Any = run.members.grid
    real, gone = grid._run, {1: 0, 2: 3}  # in round 1 client 0 vanishes, in round 2 client 3

    def lossy(client: int, message: Message) -> Message:
        reply = real(client, message)
        config = message.content["config"]
        lost = config.get("ask") == exchange and gone.get(int(config["round"])) == client
        grid.down = {client} if lost else set()
        return reply

    grid._run = lossy
    records = list(run.run())
    kept = exchange == "reveal"  # it had sent its vectors, so it is in the sum
    assert (0 in records[0].participants) == kept
    assert (3 in records[1].participants) == kept
    assert records[2].participants == (0, 1, 2, 3, 4)
    agrees(run, tmp_path)


def test_what_reaches_the_server_shows_no_update(tmp_path: Path) -> None:
    """The same client, the same training: two runs differ in every byte that matters, and none is the update's."""
    seen: list[np.ndarray] = []
    for attempt in range(2):
        run = coordinator(feddc.FedAvg(), tmp_path / str(attempt), secure="masked:bits=16:range=2", rounds=1, **ALL)
        grid: Any = run.members.grid

        def look(client: int, reply: Message) -> Message:
            array = reply.content["arrays"].get("secure.message") if "arrays" in reply.content else None
            if client == 0 and array is not None and array.numpy().size > 600:
                seen.append(array.numpy()[41:].copy())
            return reply

        grid.tamper = look
        list(run.run())
    first, second = seen
    assert (first == second).mean() < 0.02  # 1 byte of 256 by chance
    assert "update" not in run.exchange.question(1, 0)


def test_too_few_leave_the_experiment_as_it_was(tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, secure="masked", **ALL)
    run.members.gather(range(5), 5)
    grid: Any = run.members.grid
    grid.slow = {0, 1, 2}  # they take part, and never answer with their updates
    before = run.progress.server.model.clone()
    with pytest.raises(RunError, match="only 2 clients answered in exchange 3, and 3 are needed"):
        list(run.run())
    assert torch.equal(run.progress.server.model, before)
    assert run.progress.seen == {}
    agrees(run, tmp_path)


def test_messages_of_another_round_or_client_are_left_out(tmp_path: Path) -> None:
    run = coordinator(feddc.FedDC(), tmp_path, secure="masked", rounds=2, **ALL)
    grid: Any = run.members.grid
    kept: dict[str, Message] = {}

    def replay(client: int, reply: Message) -> Message:
        array = reply.content["arrays"].get("secure.message") if "arrays" in reply.content else None
        if client == 2 and array is not None:
            size = str(array.numpy().size)
            old = kept.setdefault(size, reply)  # in round 2: the answer of round 1
            old.metadata.__dict__.update(reply.metadata.__dict__)
            return old
        return reply

    grid.tamper = replay
    records = list(run.run())
    assert 2 in records[0].participants
    assert 2 not in records[1].participants
    agrees(run, tmp_path)


@pytest.mark.parametrize("algorithm", STATEFUL, ids=str)
@pytest.mark.parametrize(
    "privacy", ["local:clip=0.1:noise=0.3", "distributed:clip=0.1:noise=1", "central:clip=0.1:noise=0"]
)
def test_what_sites_clip_and_add_is_what_they_remember(algorithm: Any, privacy: str, tmp_path: Path) -> None:
    run = coordinator(algorithm, tmp_path, privacy=privacy, rounds=3, **ALL)
    records = list(run.run())
    agrees(run, tmp_path)
    assert all((r.epsilon is None) == privacy.endswith("noise=0") for r in records)
    assert all(site.update is None for r in records for site in r.sites)


RULES = ["norm:0.8", "trimmed-mean:0.2", "trimmed-mean:0.2:mean", "median", "centered-clip:0.8"]


@pytest.mark.parametrize("algorithm", [feddc.FedAvg(), *STATEFUL], ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_robust_rounds_equal_simulated_ones(algorithm: Any, rule: str, tmp_path: Path) -> None:
    """Half of the clients a round, so that some are told only rounds later what was used of their update."""
    run = coordinator(algorithm, tmp_path, robust=rule, rounds=5)
    records, (_, simulation) = list(run.run()), simulated(algorithm, robust=rule, rounds=5)
    torch.testing.assert_close(run.progress.server, simulation.server, rtol=1e-4, atol=1e-5)
    assert any(len(r.participants) < 5 for r in records)


def test_what_was_used_is_told_also_after_a_restart_of_the_server(tmp_path: Path) -> None:
    whole = coordinator(feddc.FedDC(alpha=0.1), tmp_path / "whole", robust="trimmed-mean:0.2", rounds=4)
    list(whole.run())
    for rounds in (2, 4):
        run = coordinator(feddc.FedDC(alpha=0.1), tmp_path / "parts", robust="trimmed-mean:0.2", rounds=rounds)
        list(run.run())
    assert torch.equal(run.progress.server.model, whole.progress.server.model)
    assert len(run.progress.filters) <= 5


def test_central_noise_on_flower_is_unpredictable_and_the_budget_ends_the_run(tmp_path: Path) -> None:
    models = []
    for attempt in range(2):
        run = coordinator(
            feddc.FedAvg(), tmp_path / str(attempt), privacy="central:noise=6:clip=0.1", epsilon=2.0, rounds=50, **ALL
        )
        records = list(run.run())
        assert 1 < len(records) < 50
        assert records[-1].epsilon is not None
        assert records[-1].epsilon <= 2.0
        models.append(run.progress.server.model)
    assert not torch.equal(*models)


def test_a_site_demands_more_than_the_server_asks_for(tmp_path: Path) -> None:
    """Whatever the server says, the update of a site with a clip of its own is no longer than that."""
    demands = {1: {"update-clip": 0.01}, 3: {"update-clip": 0.02, "update-noise": 0.0}}

    class Sites(FakeGrid):
        def _run(self, client: int, message: Message) -> Message:
            from flwr.app import Context, RecordDict

            node = {"partition-id": client, "state-dir": str(self.folder), **demands.get(client, {})}
            return self.app(message, Context(1, message.metadata.dst_node_id, node, RecordDict(), {}))

    sent: dict[int, list[float]] = {}

    def look(client: int, reply: Message) -> Message:
        arrays = reply.content["arrays"]
        if "delta" in arrays:
            sent.setdefault(client, []).append(float(np.linalg.norm(arrays["delta"].numpy())))
        return reply

    asked = Settings(
        clients=5, rounds=2, wait=0, answer_within=0.01, training=task.TRAINING, folder=str(tmp_path / "server")
    )
    app = client_app(task.load_client, task.make_model)
    run = Coordinator(Sites(app, 5, tmp_path / "clients"), feddc.FedDC(alpha=0.1), task.make_model(), asked)
    run.members.grid.tamper = look  # type: ignore[attr-defined]
    list(run.run())
    assert max(sent[1]) == pytest.approx(0.01, rel=1e-4)
    assert max(sent[3]) == pytest.approx(0.02, rel=1e-4)
    assert min(sent[0]) > 0.03
    agrees(run, tmp_path)


numbers = st.one_of(st.floats(), st.integers(-5, 5), st.just(1e300))


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["clip", "noise", "range", "bits", "later", "x"]), numbers), st.floats(0.01, 2))
def test_nothing_that_a_server_asks_for_weakens_what_a_site_demands(asked: dict[str, Any], demanded: float) -> None:
    """Whatever numbers a question has: the update has the site's clip and noise, or there is none."""
    node = {"update-clip": 0.5, "update-noise": demanded}
    config = {f"guard.{name}": value for name, value in asked.items()}
    try:
        guard = site_guard(config, node, Buffers(torch.zeros(0), torch.zeros(0, dtype=torch.int64)))
        sent = [guard.used(100 * torch.ones(1, 200)) for _ in range(2)]
    except ConfigError:
        return
    assert all(each.isfinite().all() for each in sent)
    assert guard.clip is not None
    assert guard.clip <= 0.5
    assert guard.noise >= demanded * guard.clip
    assert not torch.equal(*sent) or guard.lattice is not None or guard.clip < 1e-30


def test_a_site_that_demands_masks_sends_no_bare_update() -> None:
    none = Buffers(torch.zeros(0), torch.zeros(0, dtype=torch.int64))
    with pytest.raises(ConfigError, match="under masks only"):
        site_guard({}, {"secure-least": 3}, none)
    assert site_guard({"guard.bits": 16, "guard.range": 2.0}, {"secure-least": 3}, none).lattice is not None


def test_a_site_refuses_sums_of_fewer_than_it_demands(tmp_path: Path) -> None:
    """Client 0 takes part in sums of at least 4; a threshold of 3 among 5 is not enough for it."""

    class Sites(FakeGrid):
        def _run(self, client: int, message: Message) -> Message:
            from flwr.app import Context, RecordDict

            node = {"partition-id": client, "state-dir": str(self.folder)} | ({} if client else {"secure-least": 4})
            return self.app(message, Context(1, message.metadata.dst_node_id, node, RecordDict(), {}))

    run = coordinator(feddc.FedAvg(), tmp_path, secure="masked", rounds=1, **ALL)
    run.members.grid.__class__ = Sites
    [record] = run.run()
    assert record.participants == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"secure": "simulated"}, "on Flower updates are really masked"),
        ({"secure": "masked", "late": "use"}, "late=use is not possible"),
        ({"secure": "masked", "robust": "median"}, "secure hides single updates"),
        ({"robust": "median", "late": "use"}, "robust compares answers of one round"),
        ({"robust": "median:from=3"}, "applies from the round in which it is first given"),
        ({"attack": "sign-flip"}, "attack poisons simulated clients only"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=why):
        coordinator(feddc.FedDyn(), tmp_path, **changes)


def test_a_model_with_buffers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not cover buffers"):
        coordinator(feddc.FedAvg(), tmp_path, task.make_model_with_buffers, secure="masked")
