"""Federations from arrays, data sets and names; data that is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import feddc

X, Y = np.arange(40, dtype=np.float64).reshape(10, 4), np.arange(10) % 3


def test_sizes_cut_consecutive_runs() -> None:
    federation = feddc.Federation.from_arrays(X, Y, sizes=[3, 7])
    assert len(federation) == 2
    assert federation.sizes.tolist() == [3, 7]
    assert federation.clients[1].tolist() == list(range(3, 10))
    assert federation.x.dtype == torch.float32
    torch.testing.assert_close(federation.weights, torch.tensor([[0.6], [1.4]]))
    assert federation.label_counts().tolist() == [[1, 1, 1], [3, 2, 2]]


def test_explicit_indices_and_splits() -> None:
    federation = feddc.Federation.from_arrays(torch.tensor(X), list(Y), clients=[[0, 2], np.array([5])])
    assert [rows.tolist() for rows in federation.clients] == [[0, 2], [5]]
    assert len(feddc.Federation.from_arrays(X, Y, clients=4, split="dirichlet:0.3")) == 4


def test_from_any_map_style_dataset() -> None:
    class Pairs(torch.utils.data.Dataset[tuple[np.ndarray, int]]):
        def __len__(self) -> int:
            return 10

        def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
            return X[i].astype(np.float32), int(Y[i])

    federation = feddc.Federation.from_dataset(Pairs(), clients=2, test=Pairs())
    assert federation.test is not None
    torch.testing.assert_close(federation.x, torch.tensor(X, dtype=torch.float32))


def test_whole_number_features_stay_what_they_are() -> None:
    tokens = feddc.Federation.from_arrays(np.ones((10, 4), dtype=np.int64), Y, sizes=[10])
    assert tokens.x.dtype == torch.int64
    stored = feddc.Federation.from_arrays(np.ones((10, 4), dtype=np.uint8), Y, sizes=[10])
    assert stored.x.dtype == torch.uint8
    assert stored.client_samples(0)[0].dtype == torch.float32


def test_a_split_depends_on_the_seed_only() -> None:
    same = [feddc.load("digits", clients=5, split="dirichlet:0.3", seed=s).clients[0].tolist() for s in (1, 1, 2)]
    assert same[0] == same[1] != same[2]


def test_digits() -> None:
    federation = feddc.load("digits", clients=10)
    assert federation.test is not None
    assert len(federation.y) + len(federation.test[1]) == 1797
    assert federation.shape == (64,)
    assert federation.classes == 10
    assert 0 <= federation.x.min() < federation.x.max() == 1


def test_synthetic_is_what_the_formula_says() -> None:
    federation = feddc.load("synthetic:samples=5000", clients=2)
    assert federation.sizes.tolist() == [5000, 5000]
    torch.testing.assert_close(federation.x.std(dim=0), torch.arange(1, 31).pow(-0.6), rtol=0.05, atol=0.0)
    assert federation.x.mean(dim=0).abs().max() < 0.05  # γ2 = 0: all means are 0
    shifted = feddc.load("synthetic:gamma2=1", clients=8)
    assert shifted.client_samples(0)[0].mean(dim=0).std() > 0.5


def test_synthetic_solutions_are_shared_or_not() -> None:
    """A least-squares fit on one client predicts another's labels only where they share the solution."""

    def transfer(shared: str) -> float:
        federation = feddc.load(f"synthetic:gamma1=1:shared_solution={shared}:samples=2000", clients=2)
        (x0, y0), (x1, y1) = federation.client_samples(0), federation.client_samples(1)
        ones = torch.ones(len(x0), 1)
        fit = torch.linalg.lstsq(torch.cat([x0, ones], 1), torch.nn.functional.one_hot(y0, 5).float()).solution
        return float(((torch.cat([x1, ones], 1) @ fit).argmax(dim=1) == y1).float().mean())

    assert transfer("true") > 0.75
    assert transfer("false") < 0.5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": np.where(X == 5, np.nan, X)}, "NaN or Inf in sample 1"),
        ({"y": Y[:9]}, r"not \(10, 4\) and \(9,\)"),
        ({"y": Y - 1}, "0 or more, but one is -1"),
        ({"y": Y + 0.5}, "whole numbers"),
        ({"classes": 2}, "outside the 2 classes"),
        ({"sizes": [3, 6]}, "add up to 9"),
        ({"sizes": [0, 10]}, "client 0 is empty"),
        ({"sizes": None, "clients": [[0], []]}, "client 1 is empty"),
        ({"sizes": None, "clients": [[0], [10]]}, "client 1 has sample 10"),
        ({"sizes": None, "clients": [[0, 1], [1]]}, "already taken"),
        ({"sizes": None, "clients": [[0, 0]]}, "already taken"),
        ({"sizes": None, "clients": []}, "at least one client"),
        ({"sizes": None, "clients": 11}, "11 clients cannot share 10"),
        ({"sizes": None}, "either sizes= or clients="),
        ({"clients": 2}, "either sizes= or clients="),
        ({"test": (X[:, :3], Y)}, r"test samples have shape \(3,\)"),
        ({"x": [["a"] * 4] * 10}, "numeric"),
        ({"x": X[:0], "y": Y[:0], "sizes": []}, "empty"),
    ],
)
def test_bad_data_is_refused_in_a_sentence(change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"x": X, "y": Y, "sizes": [3, 7]} | change
    with pytest.raises(feddc.FedDCError, match=words) as caught:
        feddc.Federation.from_arrays(arguments.pop("x"), arguments.pop("y"), **arguments)
    assert "\n" not in str(caught.value)


def test_who_holds_what_as_other_libraries_have_it() -> None:
    x, y = np.arange(12, dtype=np.float32).reshape(6, 2), np.arange(6) % 2
    wanted = [[0, 1, 2], [3, 4, 5]]
    for clients in ({1: [3, 4, 5], 0: [0, 1, 2]}, np.arange(6).reshape(2, 3), [range(3), range(3, 6)]):
        federation = feddc.Federation.from_arrays(x, y, clients=clients)
        assert [rows.tolist() for rows in federation.clients] == wanted


def test_tables_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    x, y = np.arange(12, dtype=np.float32).reshape(6, 2), np.arange(6) % 2
    federation = feddc.Federation.from_arrays(pandas.DataFrame(x), pandas.Series(y), sizes=[6])
    assert torch.equal(federation.x, torch.from_numpy(x))
    assert federation.y.tolist() == y.tolist()
    with pytest.raises(feddc.DataError, match="not texts such as 'a'"):
        feddc.Federation.from_arrays(x, pandas.Series(list("ababab")), sizes=[6])
