"""Splits: each sample exactly once, whatever the labels, the number of clients and the options."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import feddc
from feddc.data.partition import equal_sizes, lognormal_sizes, split_indices

SPLITS = st.sampled_from(
    [
        "iid",
        "iid:stratified=true",
        "dirichlet:0.6",
        "dirichlet:0.01",
        "dirichlet:100",
        "pathological:1",
        "pathological:2",
        "shards:2",
    ]
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=120),
    st.integers(1, 20),
    SPLITS,
    st.sampled_from(["", "+unbalanced:0.3", "+unbalanced:2"]),
    st.integers(0, 5),
)
def test_every_split_uses_each_sample_exactly_once(
    labels: list[int], clients: int, split: str, sizes: str, seed: int
) -> None:
    assume(clients <= len(labels))
    try:
        parts = split_indices(split + sizes, np.array(labels), clients, np.random.default_rng(seed))
    except feddc.ConfigError:
        assume(not split.startswith(("pathological", "shards")))  # the only ones that can ask for the impossible
        raise
    assert len(parts) == clients
    assert all(len(part) for part in parts)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(labels)))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 500), st.integers(1, 60), st.floats(0, 3), st.integers(0, 99))
def test_sizes_add_up(samples: int, clients: int, sigma: float, seed: int) -> None:
    assume(clients <= samples)
    for sizes in (equal_sizes(samples, clients), lognormal_sizes(samples, clients, sigma, np.random.default_rng(seed))):
        assert sizes.sum() == samples
        assert sizes.min() >= 1


LABELS = np.random.default_rng(0).integers(10, size=6000)


def counts(split: str, clients: int = 20) -> np.ndarray:
    parts = split_indices(split, LABELS, clients, np.random.default_rng(1))
    return np.array([np.bincount(LABELS[part], minlength=10) for part in parts])


def test_dirichlet_keeps_sizes_equal_and_differs_more_with_smaller_alpha() -> None:
    shares = {}
    for alpha in (0.1, 0.6, 100.0):
        table = counts(f"dirichlet:{alpha}")
        assert set(table.sum(axis=1)) == {300}
        shares[alpha] = (table.max(axis=1) / 300).mean()
    assert shares[0.1] > 0.4 > shares[0.6] > 0.2 > shares[100.0]


def test_dirichlet_proportions_are_those_of_the_prior_before_classes_run_out() -> None:
    """Many samples, few of them drawn first: compare the split's first client with its prior through a large alpha."""
    table = counts("dirichlet:1000") / 300
    assert abs(table - 0.1).max() < 0.06


def test_dirichlet_with_exhausted_classes_ends() -> None:
    labels = np.repeat([0, 1], [990, 10])
    parts = split_indices("dirichlet:0.001", labels, 50, np.random.default_rng(0))
    assert sorted(np.concatenate(parts).tolist()) == list(range(1000))


def test_stratified_iid_is_exactly_balanced() -> None:
    labels = np.random.default_rng(2).permutation(np.repeat(np.arange(10), 100))
    parts = split_indices("iid:stratified=true", labels, 20, np.random.default_rng(0))
    assert all((np.bincount(labels[part]) == 5).all() for part in parts)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_pathological_gives_k_classes_each(k: int) -> None:
    assert ((counts(f"pathological:{k}") > 0).sum(axis=1) == k).all()


def test_shards_come_from_the_sorted_data() -> None:
    table = counts("shards:2")
    assert set(table.sum(axis=1)) == {300}
    assert (table > 0).sum(axis=1).max() <= 4  # each of two shards touches at most two classes


def test_unbalanced_sizes_spread_like_the_lognormal() -> None:
    sizes = counts("iid+unbalanced:0.3", 100).sum(axis=1)
    assert 0.2 < np.log(sizes).std() < 0.4


@pytest.mark.parametrize(
    ("split", "words"),
    [
        ("dirichelet:0.3", "did you mean 'dirichlet'"),
        ("dirichlet:-1", "above 0"),
        ("dirichlet:x", "must be a number, not 'x'"),
        ("dirichlet:alfa=1", "did you mean 'alpha'"),
        ("iid+unbalancd:0.3", "did you mean 'unbalanced'"),
        ("pathological:11", "the data has 10"),
        ("pathological:0", "1 or more"),
        ("iid:true:3", "takes at most 1 option"),
        ("", "unknown split ''"),
    ],
)
def test_bad_splits_are_refused_in_a_sentence(split: str, words: str) -> None:
    with pytest.raises(feddc.ConfigError, match=words):
        split_indices(split, LABELS, 20, np.random.default_rng(0))


def test_more_clients_than_samples() -> None:
    with pytest.raises(feddc.DataError, match="7 clients cannot share 5 samples"):
        split_indices("iid", np.zeros(5, dtype=int), 7, np.random.default_rng(0))
