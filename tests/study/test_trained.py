"""Preparation travels with the model: a run directory is all that predictions need."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import feddc
from feddc.cli import main
from feddc.data import from_csv


def command(*args: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    return int(ended.value.code or 0)


def write_table(path: Path) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(50, 10, 60), rng.normal(0, 0.001, 60)])
    y = (x[:, 0] > 50).astype(int)
    path.mkdir()
    for i in range(3):
        rows = [f"{a},{b},{c}" for (a, b), c in zip(x[20 * i : 20 * i + 20], y[20 * i : 20 * i + 20], strict=True)]
        (path / f"client{i}.csv").write_text("\n".join(["age,tiny,label", *rows]) + "\n")
    return x


def test_new_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, out = write_table(tmp_path / "data"), tmp_path / "run"
    options = ("--model", "linear", "--rounds", "5", "--lr", "0.1", "--quiet", "--out", str(out))
    assert command("run", "--data", f"csv:path={tmp_path / 'data'}", *options) == 0
    model = feddc.load_model(out)
    federation = from_csv(tmp_path / "data")
    about = federation.preparation
    assert about is not None
    assert about == model.preparation
    assert about.columns == ("age", "tiny")
    # The constants are those of all clients' training rows together.
    raw = torch.from_numpy(x).float()
    torch.testing.assert_close(about.apply(raw).mean(dim=0), torch.zeros(2), atol=0.5, rtol=0)
    torch.testing.assert_close(about.apply(raw)[:1], (raw[:1] - torch.tensor(about.mean)) / torch.tensor(about.std))
    new = tmp_path / "new.csv"
    new.write_text("name,tiny,age\nanna,0,90\nbert,0,10\n")  # columns in another order, one that is not used
    assert model.predict(str(new)) == [1, 0] == model.predict([[90.0, 0.0], [10.0, 0.0]])
    capsys.readouterr()
    assert command("predict", str(out), str(new)) == 0
    assert capsys.readouterr().out.split() == ["1", "0"]
    for text, sentence in [
        ("age\n1\n", "has no column 'tiny'"),
        ("age,tiny\n", "has no rows"),
        ("age,tiny\n1,x\n", "line 2"),
    ]:
        new.write_text(text)
        assert command("predict", str(out), str(new)) == 2
        assert sentence in capsys.readouterr().err
    assert command("predict", str(out), str(tmp_path / "none.csv")) == 2
    with pytest.raises(feddc.DataError, match="need 2 columns"):
        model.predict([[1.0, 2.0, 3.0]])


def test_new_pictures(tmp_path: Path) -> None:
    for i in range(24):
        kind = "dark" if i % 2 else "light"
        folder = tmp_path / "data" / kind
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((6, 6), 20 + i if i % 2 else 200 + i, dtype=np.uint8)).save(folder / f"{i}.png")
    out = tmp_path / "run"
    options = ("--model", "linear", "--clients", "3", "--rounds", "5", "--quiet", "--out", str(out))
    assert command("run", "--data", f"images:path={tmp_path / 'data'}:grey=true", *options) == 0
    Image.fromarray(np.full((9, 9, 3), 10, dtype=np.uint8)).save(tmp_path / "night.png")  # another size, in colour
    assert feddc.load_model(out).predict([tmp_path / "night.png", tmp_path / "data" / "light" / "0.png"]) == [
        "dark",
        "light",
    ]


def test_runs_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(feddc.RunError, match="has no trained model"):
        feddc.load_model(tmp_path)
