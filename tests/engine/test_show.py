"""A result in a notebook."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import pytest
from torch import nn

import feddc
from feddc.engine import Drift, Record, Result
from feddc.engine.show import as_html, plot, summary
from feddc.tasks.base import Score
from tests.conftest import FAST


@pytest.mark.parametrize("diagnostics", [True, False])
def test_a_result_is_a_line_and_a_picture(
    diagnostics: bool, tmp_path: Path, federation: feddc.Federation, model: nn.Module
) -> None:
    result = feddc.train(feddc.FedDC(), model, federation, rounds=3, training=FAST, diagnostics=diagnostics)
    result.plot().savefig(tmp_path / "r.png")
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    assert len(result.plot().axes) == (3 if diagnostics else 1)
    assert repr(result).startswith("<Result: 3 rounds, best accuracy ")
    assert result._repr_html_().count("data:image/png;base64,") == 1


def test_the_picture_shows_the_records() -> None:
    rounds = [
        Record(
            1, {"accuracy": 0.5}, (0, 1), 3_000_000, 1_000_000, 1.25, drift=Drift((1.0, 1.0), (2.0, 4.0), None, 0.3)
        ),
        Record(2, {}, (0,), 500_000, 500_000, 1.0, drift=Drift((1.0,), (5.0,), None, None)),
        Record(3, {"accuracy": 0.75}, (0, 1), 0, 0, 1.0, drift=Drift((1.0, 1.0), (1.0, 1.0), None, -0.1)),
    ]
    figure = plot(rounds)
    drawn = [[tuple(map(float, point)) for point in axes.lines[0].get_xydata()] for axes in figure.axes]
    assert drawn == [[(1, 50), (3, 75)], [(1, 3), (2, 5), (3, 1)], [(1, 0.3), (3, -0.1)]]
    assert [axes.get_title() for axes in figure.axes] == [
        "test accuracy (%)",
        "consistency gap",
        "cosine between updates",
    ]
    assert {axes.get_xlabel() for axes in figure.axes} == {"round"}
    assert all(axes.xaxis.get_gridlines()[0].get_alpha() == 0.3 for axes in figure.axes)
    assert figure.get_size_inches().tolist() == [9, 3]
    alone = plot([Record(1, {"mse": 0.5}, (0,), 0, 0, 1.0, score=Score("mse", higher_is_better=False))])
    assert alone.axes[0].get_title() == "test mse"
    assert alone.axes[0].lines[0].get_ydata().tolist() == [0.5]
    assert alone.get_size_inches().tolist() == [4.5, 3]
    whole, blind = (Result(tuple(each), nn.Identity()) for each in (rounds, [Record(1, {}, (0,), 0, 0, 1.0)]))
    assert summary(whole) == "3 rounds, best accuracy 75.00 %, 5.0 MB moved, 3.2 s"
    assert summary(blind) == "1 rounds, not evaluated, 0.0 MB moved, 1.0 s"
    picture = base64.b64decode(as_html(whole).partition("base64,")[2].partition('"')[0])
    assert struct.unpack(">II", picture[16:24]) == (990, 330)  # 110 points an inch
