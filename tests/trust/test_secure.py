"""Secure aggregation: sums are exact whoever vanishes when, and nothing but a ProtocolError comes of a bad message."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from Crypto.Protocol.SecretSharing import Shamir
from hypothesis import given, settings, strategies as st

from feddc.algorithms.feddc import FedDC
from feddc.errors import ConfigError, ProtocolError
from feddc.trust.secure import Lattice, keys, make_secure
from feddc.trust.secure.client import SecureClient
from feddc.trust.secure.lattice import Weighting, distinct
from feddc.trust.secure.messages import Session, session_of
from feddc.trust.secure.server import SecureServer
from feddc.types import Local
from tests.trust.sessions import run_session

QUICK = settings(max_examples=20, deadline=None)
FUZZ = settings(max_examples=int(os.environ.get("FEDDC_FUZZ", "100")), deadline=None)
PLAN = Session(session_of("test", 1), ((5, 32), (3, 64)))
SMALL = Session(session_of("small"), ((2, 32),))


def vectors(clients: int, session: Session = PLAN, seed: int = 0) -> dict[int, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    return {
        n: [rng.integers(-(2 ** (bits - 6)), 2 ** (bits - 6), size=length) for length, bits in session.vectors]
        for n in range(clients)
    }


def total(given: dict[int, list[np.ndarray]], used: tuple[int, ...]) -> list[np.ndarray]:
    return [np.sum([given[n][i] for n in used], axis=0) for i in range(len(given[0]))]


@st.composite
def departures(draw: st.DrawFn) -> tuple[int, int, dict[int, list[int]]]:
    """How many clients, the threshold, and who leaves before which exchange, at least ``threshold`` staying."""
    count = draw(st.integers(3, 7))
    threshold = draw(st.integers(count // 2 + 1, count))
    leaving = draw(st.lists(st.integers(0, count - 1), unique=True, max_size=count - threshold))
    when = [draw(st.integers(1, 4)) for _ in leaving]
    return count, threshold, {e: [n for n, w in zip(leaving, when, strict=True) if w == e] for e in range(1, 5)}


@QUICK
@given(departures(), st.integers(0, 2**32))
def test_the_sum_is_exact_whoever_leaves_when(case: tuple[int, int, dict[int, list[int]]], seed: int) -> None:
    count, threshold, gone = case
    given_ = vectors(count, seed=seed)
    server, sums = run_session(PLAN, given_, threshold, gone)
    left_before_sending = {n for exchange in (1, 2, 3) for n in gone[exchange]}
    assert server.used == tuple(n for n in range(count) if n not in left_before_sending)
    for found, wanted in zip(sums, total(given_, server.used), strict=True):
        assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("exchange", [1, 2, 3, 4])
def test_below_the_threshold_there_is_no_sum(exchange: int) -> None:
    with pytest.raises(ProtocolError, match=f"only 2 clients answered in exchange {exchange}, and 3 are needed"):
        run_session(PLAN, vectors(4), 3, {exchange: [0, 1]})


def test_what_the_server_sees_of_a_client_is_uniform() -> None:
    """10 000 zeros under masks look like random bits, other ones in every session, and differ between clients."""
    seen: list[np.ndarray] = []
    for attempt in range(2):
        session = Session(session_of("zeros", attempt), ((10_000, 32),))

        def look(exchange: int, _client: int, message: bytes) -> bytes:
            if exchange == 3:
                seen.append(np.frombuffer(message[-40_000:], dtype="<u4"))
            return message

        _, sums = run_session(session, {n: [np.zeros(10_000, dtype=np.int64)] for n in range(3)}, tamper=look)
        assert not sums[0].any()
    assert len(seen) == 6
    for each in seen:
        ones = np.unpackbits(each.view(np.uint8)).mean()
        assert abs(ones - 0.5) < 5 * 0.5 / np.sqrt(320_000)
    assert len({each.tobytes() for each in seen}) == 6


def test_a_client_never_gives_both_secrets_of_another() -> None:
    """Asked twice, with other survivors, it refuses: both secrets together would unmask a client's own vector."""
    server = SecureServer(PLAN, range(4), 3)
    clients = [SecureClient(n, PLAN) for n in range(4)]
    given_ = vectors(4)
    for n, each in enumerate(clients):
        server.add_keys(n, each.keys())
    roster = server.roster()
    for n, each in enumerate(clients):
        server.add_shares(n, each.shares(roster[n]))
    inboxes = server.inboxes()
    for n, each in enumerate(clients[:3]):
        server.add_masked(n, each.masked(inboxes[n], given_[n]))
    survivors = server.survivors()
    clients[0].reveal(survivors[0])
    with pytest.raises(ProtocolError, match="has finished exchange 4"):
        clients[0].reveal(survivors[0])
    with pytest.raises(ProtocolError, match="exchange 3 came in exchange 4"):
        server.add_masked(3, clients[3].masked(inboxes[3], given_[3]))  # too late: its key may be known by now


def test_a_wrong_share_is_passed_over_while_there_are_enough_others() -> None:
    def garble(exchange: int, client: int, message: bytes) -> bytes:
        return message[:-1] + bytes([message[-1] ^ 1]) if (exchange, client) == (4, 0) else message

    given_ = vectors(4)
    server, sums = run_session(PLAN, given_, 3, tamper=garble)
    assert sums[0].tolist() == total(given_, server.used)[0].tolist()
    with pytest.raises(ProtocolError, match="client 3's secret do not fit"):
        run_session(PLAN, given_, 4, tamper=garble)


@FUZZ
@given(st.data())
def test_tampered_messages_exclude_a_client_or_are_refused(data: st.DataObject) -> None:
    """Bits flipped, cut off, grown, swapped for another client's or another session's: a sum is right or there is none.

    What a client can still do is to send other numbers than its own: masked numbers are as good as any.
    """
    exchange, culprit = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 3))
    kind = data.draw(st.sampled_from(["flip", "cut", "grow", "random", "other", "stale"]))
    session = Session(session_of("fuzz"), ((2, 32),))
    before: dict[int, bytes] = {}
    if kind == "stale":
        stale = Session(session_of("fuzz", 0), ((2, 32),))
        run_session(
            stale, vectors(4, session), 3, tamper=lambda e, n, m: before.setdefault(e, m) if n == culprit else m
        )

    def tamper(at: int, client: int, message: bytes) -> bytes:
        if at == exchange and client != culprit:
            before.setdefault(-at, message)
        if (at, client) != (exchange, culprit):
            return message
        if kind == "flip":
            place = data.draw(st.integers(0, len(message) - 1))
            if exchange == 3 and place >= 41:
                place %= 41
            return message[:place] + bytes([message[place] ^ data.draw(st.integers(1, 255))]) + message[place + 1 :]
        if kind == "cut":
            return message[: data.draw(st.integers(0, len(message) - 1))]
        if kind == "grow":
            return message + data.draw(st.binary(min_size=1, max_size=80))
        if kind == "random":
            return data.draw(st.binary(max_size=200))
        return before.get(exchange if kind == "stale" else -exchange, b"")

    given_ = vectors(4, session)
    try:
        server, sums = run_session(session, given_, 3, tamper=tamper)
    except ProtocolError:
        return
    assert sums[0].tolist() == total(given_, server.used)[0].tolist()


@FUZZ
@given(st.binary(max_size=300), st.integers(0, 3), st.booleans())
def test_a_client_survives_any_bytes_and_stays_where_it_was(noise: bytes, done: int, with_header: bool) -> None:
    client, peers = SecureClient(0, SMALL), {n: SecureClient(n, SMALL) for n in (1, 2)}
    server = SecureServer(SMALL, range(3))
    everyone = {0: client, **peers}
    messages: list[dict[int, bytes]] = [{}]
    if done >= 1:
        for n, each in everyone.items():
            server.add_keys(n, each.keys())
        messages.append(server.roster())
    if done >= 2:
        for n, each in everyone.items():
            server.add_shares(n, each.shares(messages[1][n]))
        messages.append(server.inboxes())
    if done >= 3:
        for n, each in everyone.items():
            server.add_masked(n, each.masked(messages[2][n], [np.arange(2)]))
        messages.append(server.survivors())
    good = messages[done].get(0, b"")
    bad = good[:41] + noise if with_header else noise
    calls = [client.shares, client.shares, lambda m: client.masked(m, [np.arange(2)]), client.reveal]
    if bad != good:
        with pytest.raises(ProtocolError):
            calls[done](bad)
    if done:
        assert calls[done](good)  # it was not moved


def ask(client: SecureClient, exchange: int, message: bytes) -> bytes:
    """The question of an exchange, from 0."""
    if exchange == 0:
        return client.keys()
    if exchange == 2:
        return client.masked(message, [np.arange(2)])
    return client.shares(message) if exchange == 1 else client.reveal(message)


@FUZZ
@given(st.lists(st.integers(0, 3), max_size=12))
def test_exchanges_out_of_order_or_repeated_are_refused(order: list[int]) -> None:
    """Whatever order a server asks in, a client answers each exchange once, after the one before it."""
    clients, server, done = {n: SecureClient(n, SMALL) for n in range(3)}, SecureServer(SMALL, range(3)), 0
    takes = [server.add_keys, server.add_shares, server.add_masked, server.add_reveal]
    asks = [server.roster, server.inboxes, server.survivors]
    questions: list[dict[int, bytes]] = [dict.fromkeys(clients, b"")]
    for exchange in [*order, *range(4)]:
        if exchange != done:
            with pytest.raises(ProtocolError):
                ask(clients[0], exchange, questions[exchange][0] if exchange < done else b"")
            continue
        for n, client in clients.items():
            takes[exchange](n, ask(client, exchange, questions[exchange][n]))
        done += 1
        if done < 4:
            questions.append(asks[exchange]())
    assert server.sums()[0].tolist() == [0, 3]


def test_keys_are_new_for_every_client_and_session_names_tell_rounds_and_attempts_apart() -> None:
    assert SecureClient(0, SMALL).keys() != SecureClient(0, SMALL).keys()
    names = {session_of("a", 1, "x"), session_of("a", 2, "x"), session_of("a", 1, "y"), session_of("b", 1, "x")}
    assert len(names) == 4


def test_unequal_clients_mask_a_second_and_wider_sum() -> None:
    secure = make_secure("masked")
    for sizes, taken, rings in (
        ([8, 8, 8], [1, 1, 1], [32]),
        ([8, 16, 40], [1, 2, 5], [32]),
        ([8, 13, 40], [1, 2, 4], [32, 64]),
    ):
        samples, steps = (torch.tensor(each, dtype=torch.float32).unsqueeze(1) for each in (sizes, taken))
        weight = samples / samples.mean()
        local = Local(round=1, nominal=10, lr=0.1, rate=0.1, steps=steps)
        columns = {name: each.flatten().tolist() for name, each in FedDC().weigh(local, weight).items()}
        assert sorted(each.ring(secure.lattice) for each in distinct(columns)[0]) == rings


@pytest.mark.parametrize(
    ("roster", "why"),
    [
        ("half", "a threshold of 1 among 3"),
        ("without me", "does not have this client's own"),
        ("twice", "has a key twice"),
        ("small order", "a public key cannot be used"),
    ],
)
def test_a_server_that_cheats_with_keys_is_refused(roster: str, why: str) -> None:
    client, server = SecureClient(0, SMALL), SecureServer(SMALL, range(3))
    server.add_keys(0, client.keys())
    other = SecureClient(1, SMALL).keys()
    server.add_keys(1, other)
    third = SecureClient(2, SMALL).keys()
    if roster == "twice":
        third = third[:41] + other[41:]
    if roster == "small order":
        third = third[:41] + bytes(32) + third[73:]
    server.add_keys(2, third)
    if roster == "without me":
        server._keys[0] = SecureClient(0, SMALL).keys()[41:]
    if roster == "half":
        server.threshold = 1
    with pytest.raises(ProtocolError, match=why):
        client.shares(server.roster()[0])


def test_thresholds_that_hide_nobody_are_refused() -> None:
    with pytest.raises(ConfigError, match="above half of the 4 clients"):
        SecureServer(SMALL, range(4), 2)
    with pytest.raises(ConfigError, match="above half of the 1 clients and at least 2"):
        SecureServer(SMALL, [0])
    with pytest.raises(ConfigError, match="hides nobody"):
        SecureClient(0, SMALL, least=1)


@QUICK
@given(st.integers(2, 9), st.data())
def test_any_threshold_of_shares_gives_the_secret_back_and_fewer_do_not(count: int, data: st.DataObject) -> None:
    threshold = data.draw(st.integers(2, count))
    secret = keys.new_secret()
    shares = dict(enumerate(keys.split(secret, count, threshold), start=1))
    chosen = data.draw(st.lists(st.sampled_from(sorted(shares)), unique=True, min_size=threshold, max_size=threshold))
    assert keys.combine({n: shares[n] for n in chosen}) == secret
    assert keys.combine({n: shares[n] for n in chosen[1:]}) != secret


@QUICK
@given(st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=20), st.integers(2, 24), st.floats(0.01, 10))
def test_a_client_commits_what_the_server_can_read(numbers: list[float], bits: int, size: float) -> None:
    lattice, values = Lattice(size, bits), torch.tensor([numbers])
    rounded = lattice.rounded(values)
    inside = values.abs() <= lattice.range
    tolerance = lattice.step / 2 + 1e-6 * lattice.range
    assert ((rounded - values).abs() <= tolerance)[inside].all()
    torch.testing.assert_close(rounded, lattice.rounded(rounded))  # rounding again changes nothing
    assert (rounded.abs() <= lattice.range * (1 + 1e-6)).all()


def test_what_is_no_number_counts_as_nothing() -> None:
    lattice = Lattice(1.0, 8)
    assert lattice.quantised(torch.tensor([[float("nan"), float("inf"), -float("inf")]])).tolist() == [[0, 127, -127]]


@QUICK
@given(st.lists(st.integers(1, 1000), min_size=2, max_size=8), st.integers(2, 24))
def test_weighted_sums_never_overflow_and_are_the_weighted_sums(samples: list[int], bits: int) -> None:
    lattice, weights = Lattice(1.0, bits), [n / np.mean(samples) for n in samples]
    weighting = Weighting.of(weights)
    worst = lattice.largest * sum(weighting.units)
    assert worst < 2 ** (weighting.ring(lattice) - 1)
    for unit, weight in zip(weighting.units, weights, strict=True):
        assert unit * weighting.unit == pytest.approx(weight, rel=1e-6, abs=max(weights) * 2**-24)


def test_weights_in_proportion_share_a_sum() -> None:
    found, places = distinct({"mean": [1, 1, 1], "variate": [0.1, 0.1, 0.1]})
    assert len(found) == 1
    assert places == {"mean": (0, 1), "variate": (0, 0.1)}
    assert found[0].ring(Lattice(bits=24)) == 32
    found, places = distinct({"mean": [1, 1, 1], "samples": [1, 2, 3]})
    assert len(found) == 2
    assert [each.ring(Lattice(bits=24)) for each in found] == [32, 64]


SSSS = [  # made with the program ssss (-s 128 -D), as PyCryptodome publishes them: threshold, secret, shares
    (
        2,
        "d9fe73909bae28b3757854c0af7ad405",
        {1: "594ae8964294174d95c33756d2504170", 4: "db2c1f8bff46d748f795da995bd080cb"},
    ),
    (
        3,
        "ec96aa5c14c9faa699354cf1da74e904",
        {
            1: "64579fbf1908d66f7239bf6e2b4e41e1",
            3: "e418776ef5c0579bd9299277374806dd",
            5: "23fe42431db2b41bd03ecdc7ea8e97ac",
        },
    ),
]


@pytest.mark.parametrize(("threshold", "secret", "shares"), SSSS)
def test_the_library_reads_shares_of_another_program(threshold: int, secret: str, shares: dict[int, str]) -> None:
    assert len(shares) == threshold
    found = Shamir.combine([(n, bytes.fromhex(share)) for n, share in shares.items()], ssss=True)
    assert found.hex() == secret
