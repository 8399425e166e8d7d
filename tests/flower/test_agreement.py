"""One scale and one list of classes for all sites, from counts and means, stored with the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import feddc
from feddc.flower import client_app
from feddc.flower.samples import Agreed, Samples, agree, merged, moments, read_table
from feddc.storage import tensors
from tests.flower import task
from tests.flower.fake import FakeGrid
from tests.flower.test_faults import EVERYONE
from tests.flower.test_parity import coordinator

KINDS = ["oval", "round", "square"]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.sampled_from([0.0, 1e6]), st.integers(0, 99))
def test_merged_moments_are_those_of_all_samples(sizes: list[int], far: float, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(sum(sizes), 4)) + far
    found = merged(moments(part) for part in np.split(x, np.cumsum(sizes)[:-1]))
    assert found.n == len(x)
    np.testing.assert_allclose(found.mean, x.mean(0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.spread, ((x - x.mean(0)) ** 2).sum(0), rtol=1e-6)


def test_images_are_scaled_by_channel() -> None:
    x = np.random.default_rng(0).normal(3, 2, size=(10, 3, 4, 4))
    agreed = agree([moments(x[:3]), moments(x[3:])], [[], []])
    scaled = agreed.scaled(x)
    torch.testing.assert_close(scaled.mean((0, 2, 3)), torch.zeros(3), rtol=0, atol=1e-5)
    torch.testing.assert_close(scaled.std((0, 2, 3), correction=0), torch.ones(3), rtol=1e-5, atol=1e-5)


def raw(node: Mapping[str, Any]) -> Samples:
    """Raw numbers in units of each site's own order of magnitude; client 0 has never seen a square."""
    client = int(node["partition-id"])
    x, y = task.load_client(node)
    x, y = x.numpy() * 50 + 1000, y.numpy()
    names = np.array([KINDS[label] for label in y])
    keep = names != "square" if client == 0 else np.ones(len(y), bool)
    return Samples(x[keep], names[keep], (x[keep][:3], names[keep][:3]), standardise=True)


def raw_test() -> Samples:
    x, y = task.load_test()
    return Samples(x.numpy() * 50 + 1000, np.array([KINDS[label] for label in y.tolist()]), standardise=True)


def federated(folder: Path, load: Any = raw, **options: Any) -> Any:
    run = coordinator(feddc.FedDC(), folder, **{"rounds": 3, **EVERYONE, **options})
    run.members.grid = run.questions.grid = FakeGrid(client_app(load, task.make_model), 5, folder / "clients")
    run.test = raw_test()
    return run


def test_sites_train_on_the_scale_and_classes_of_all(tmp_path: Path) -> None:
    run = federated(tmp_path)
    records = list(run.run())
    parts = [raw({"partition-id": client}) for client in range(5)]
    pooled = np.concatenate([part.x for part in parts]).astype(np.float64)
    agreed = run.progress.agreed
    assert agreed.classes == tuple(KINDS)
    np.testing.assert_allclose(agreed.mean, pooled.mean(0), rtol=1e-6)
    np.testing.assert_allclose(agreed.deviation, pooled.std(0), rtol=1e-5)
    clients = [part.prepared(agreed) for part in parts]
    federation = feddc.Federation.from_arrays(
        torch.cat([each.x for each in clients]),
        torch.cat([each.y for each in clients]),
        sizes=[len(each.y) for each in clients],
        test=raw_test().tested(agreed).test,
        classes=3,
    )
    expected = feddc.train(
        feddc.FedDC(), task.make_model(), federation, rounds=3, seed=3, training=task.TRAINING, executor="in-process"
    )
    assert records[-1].accuracy == expected.records[-1].accuracy
    found, about = tensors.read(tmp_path / "server" / "feddc" / "server" / "model.safetensors")
    for name, tensor in expected.model.state_dict().items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-5)
    assert Agreed.from_metadata(about) == agreed


def test_what_was_agreed_on_stays_when_a_run_continues(tmp_path: Path) -> None:
    first = federated(tmp_path)
    list(first.run())
    again = federated(tmp_path, rounds=4)
    assert len(list(again.run())) == 1
    assert again.progress.agreed == first.progress.agreed


def strange(node: Mapping[str, Any]) -> Samples:
    found = raw(node)
    return found if node["partition-id"] != 3 else Samples(found.x[:, :4], found.y, standardise=True)


def test_sites_with_other_columns_cannot_agree(tmp_path: Path) -> None:
    with pytest.raises(feddc.DataError, match="sites have 6 and 4 columns"):
        list(federated(tmp_path, strange).run())


def test_a_class_that_nobody_agreed_on() -> None:
    with pytest.raises(feddc.DataError, match="class 'oval' is not among the 2 classes that the sites agreed on"):
        Agreed(classes=("round", "square")).numbered(np.array(["round", "oval"]))


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "patients.csv"
    path.write_text(
        "age,pulse,label\n" + "".join(f"{50 + i},{60 + i},{'ill' if i % 2 else 'well'}\n" for i in range(10))
    )
    found = read_table(path)
    assert found.names() == ["ill", "well"]
    assert found.standardise
    assert (len(found.y), len(found.test[1])) == (8, 2)  # type: ignore[index]
    both = np.concatenate([found.x, found.test[0]])  # type: ignore[index]
    assert sorted(both[:, 0].tolist()) == [*range(50, 60)]
    again = read_table(path)
    np.testing.assert_array_equal(found.x, again.x)
    assert read_table(path, holdout=0).test is None


def test_every_site_judges_the_model_on_what_it_holds_out(tmp_path: Path) -> None:
    run = federated(tmp_path)
    run.test = None
    records = list(run.run())
    from feddc.engine.local.kernel import Start
    from feddc.flower.judging import Judge

    start = Start(3, run.progress.server.model, run.progress.buffers)
    for site in records[-1].sites:
        held = raw({"partition-id": site.client}).prepared(run.progress.agreed)
        assert site.measures == pytest.approx(Judge(task.make_model(), held).measures(start))
        assert site.update is not None
        assert site.update > 0
        assert site.drift is not None
        assert site.drift > 0
        assert site.seconds is not None
        assert site.samples == len(held.y)
    weighted = [site.measures for site in records[-1].sites if site.measures]
    mean = sum(m["accuracy"] * m["samples"] for m in weighted) / sum(m["samples"] for m in weighted)
    assert records[-1].accuracy == pytest.approx(mean)
