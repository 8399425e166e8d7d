"""Robust rules: what they use of each client adds up to what they promise, and a minority does not move it far."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st

from feddc.errors import ConfigError
from feddc.trust.attacks import ATTACKS, Little, SignFlip, make_attack
from feddc.trust.robust import ROBUST, make_rule
from feddc.trust.window import Window, windowed

QUICK = settings(max_examples=30, deadline=None)
RULES = ["norm:1", "trimmed-mean:0.3", "trimmed-mean:0.3:mean", "median", "centered-clip:1"]


def cohort(clients: int, size: int = 40, seed: int = 0, apart: float = 0.3) -> torch.Tensor:
    """Honest updates: a common direction, and each its own."""
    noise = torch.randn(clients, size, generator=torch.Generator().manual_seed(seed))
    return torch.ones(size) + apart * noise


def test_every_rule_is_tested() -> None:
    assert {each.partition(":")[0] for each in RULES} == set(ROBUST)


@QUICK
@given(st.integers(1, 12), st.integers(0, 1000), st.sampled_from(["nearest", "mean"]))
def test_the_trimmed_mean_is_the_mean_of_the_kept_values(clients: int, seed: int, cut: str) -> None:
    delta = cohort(clients, seed=seed, apart=5.0)
    used = make_rule(f"trimmed-mean:0.3:cut={cut}").filter(delta).used(delta)
    cut = min(-(-3 * clients // 10), (clients - 1) // 2)
    kept = delta.sort(dim=0).values[cut : clients - cut]
    torch.testing.assert_close(used.mean(dim=0), kept.mean(dim=0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cut", ["nearest", "mean"])
def test_attackers_that_push_every_round_part_from_the_honest_ones_unless_they_are_cut_to_the_mean(cut: str) -> None:
    """What is used of a client adds up in its drift: with cut=nearest the drifts grow apart by the same every round."""
    rule, drift, gaps = make_rule(f"trimmed-mean:0.3:cut={cut}"), torch.zeros(10, 40), []
    for round in range(50):
        honest = cohort(10, seed=round, apart=1.0) - 1
        sent = make_attack("constant:3:factor=50").poison(honest, torch.arange(10) < 3)
        drift += rule.filter(sent).used(sent)
        gaps.append(float((drift[:3].mean(dim=0) - drift[3:].mean(dim=0)).abs().mean()))
    if cut == "nearest":
        assert gaps[49] == pytest.approx(2 * gaps[24], rel=0.1)
        assert gaps[49] > 25
    else:
        assert max(gaps) < 1  # what attackers send is at times among the values that are kept


@QUICK
@given(st.integers(1, 12), st.integers(0, 1000))
def test_the_median_is_the_median(clients: int, seed: int) -> None:
    delta = cohort(clients, seed=seed, apart=5.0)
    used = make_rule("median").filter(delta).used(delta)
    torch.testing.assert_close(used.mean(dim=0), delta.quantile(0.5, dim=0), rtol=1e-4, atol=1e-4)


def test_the_norm_bound_is_the_median_length() -> None:
    delta = torch.tensor([[3.0, 4.0], [0.0, 1.0], [30.0, 40.0]])
    found = make_rule("norm:1").filter(delta)
    torch.testing.assert_close(found.factor, torch.tensor([[1.0], [1.0], [0.1]]))
    torch.testing.assert_close(found.used(delta), torch.tensor([[3.0, 4.0], [0.0, 1.0], [3.0, 4.0]]))
    torch.testing.assert_close(make_rule("norm:2").filter(delta).factor[2], torch.tensor([0.2]))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("clients", "bad"), [(3, 1), (10, 3)])
@pytest.mark.parametrize("attack", ["sign-flip", "scale", "constant"])
def test_a_minority_does_not_turn_the_mean_around(rule: str, clients: int, bad: int, attack: str) -> None:
    honest = cohort(clients)
    attackers = torch.arange(clients) < bad
    sent = make_attack(f"{attack}:{bad}").poison(honest, attackers)
    plain, used = sent.mean(dim=0), make_rule(rule).filter(sent).used(sent).mean(dim=0)
    truth = honest[bad:].mean(dim=0)
    assert torch.linalg.vector_norm(plain - truth) > 1.5 * torch.linalg.vector_norm(truth)
    assert torch.linalg.vector_norm(used - truth) < torch.linalg.vector_norm(truth)
    assert torch.cosine_similarity(used, truth, dim=0) > 0.5


@pytest.mark.parametrize("rule", RULES)
def test_equal_updates_are_used_as_they_are(rule: str) -> None:
    delta = torch.ones(5, 7)
    torch.testing.assert_close(make_rule(rule).filter(delta).used(delta), delta)
    assert make_rule(rule).filter(torch.zeros(3, 2)).used(torch.zeros(3, 2)).tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("rule", RULES)
def test_a_client_can_do_to_its_own_update_what_the_server_did(rule: str) -> None:
    delta = cohort(5)
    found = make_rule(rule).filter(delta)
    for client in range(5):
        torch.testing.assert_close(found.of([client]).used(delta[[client]]), found.used(delta)[[client]])


def test_attacks_touch_only_attackers() -> None:
    delta, bad = cohort(6), torch.tensor([True, False, False, True, False, False])
    for name in ATTACKS:
        sent = make_attack(f"{name}:2").poison(delta, bad)
        torch.testing.assert_close(sent[~bad], delta[~bad])
        assert name == "labels" or not torch.allclose(sent[bad], delta[bad])


def test_what_attackers_send() -> None:
    delta, bad = torch.tensor([[1.0, -2.0], [1.0, 1.0], [3.0, 1.0]]), torch.tensor([True, False, False])
    assert make_attack("sign-flip:1:factor=10").poison(delta, bad)[0].tolist() == [-10, 20]
    assert make_attack("scale").poison(delta, bad)[0].tolist() == [4.5e7, -9e7]
    assert Little(1, z=1.5).poison(delta, bad)[0].tolist() == pytest.approx([0.5, 1.0])
    assert make_attack("labels").relabel(torch.tensor([0, 1, 9]), 10).tolist() == [9, 8, 0]
    assert torch.linalg.vector_norm(make_attack("constant:1:factor=2").poison(delta, bad)[0]) == pytest.approx(
        2 * 2**0.5
    )


def test_a_little_is_as_far_as_the_paper_says() -> None:
    """50 workers, 24 attackers: 2 more make a majority, 24 of 26 are nearer to the mean, and z = Φ⁻¹(24/26)."""
    assert Little.largest_z(50, 24) == pytest.approx(1.426, abs=0.001)


def test_a_window_is_written_with_the_rest() -> None:
    assert windowed("sign-flip:3:from=5:until=8:factor=2") == ("sign-flip:3:factor=2", Window(5, 8))
    assert windowed("median") == ("median", Window())
    assert Window(5, 8).on("sign-flip:3") == "sign-flip:3:from=5:until=8"
    assert Window().on("median") == "median"
    assert [round for round in range(1, 7) if round in Window(2, 4)] == [2, 3, 4]
    for text, why in [
        ("median:from=x", "from must be a whole number"),
        ("median:from=0", "from must be a whole number, 1 or more"),
        ("median:from=5:until=4", "until=4 is before from=5"),
        ("median:until=4:until=5", "has until twice"),
    ]:
        with pytest.raises(ConfigError, match=why):
            windowed(text)


def test_bad_options_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"share must be at least 0 and at most 0\.5"):
        make_rule("trimmed-mean:0.7")
    with pytest.raises(ConfigError, match="cut must be one of nearest, mean, not 'none'"):
        make_rule("trimmed-mean:0.2:none")
    with pytest.raises(ConfigError, match="did you mean 'median'"):
        make_rule("meidan")
    with pytest.raises(ConfigError, match="clients must be a whole number"):
        SignFlip(0)
