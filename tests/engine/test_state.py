"""A server's state by name, and back: all of it, and only if it fits."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from feddc.engine.state import filled, named
from feddc.errors import RunError


class State(NamedTuple):
    model: Tensor
    opt: tuple[Tensor, ...]


STATE = State(torch.arange(3.0), (torch.ones(2), torch.zeros(2)))


def test_what_is_named_is_filled_in_again() -> None:
    tensors = named("server", STATE)
    assert list(tensors) == ["server.model", "server.opt.0", "server.opt.1"]
    back = filled("server", State(torch.zeros(3), (torch.zeros(2), torch.ones(2))), tensors)
    assert torch.equal(back.model, STATE.model)
    assert all(map(torch.equal, back.opt, STATE.opt))
    back.model.zero_()
    assert STATE.model[2] == 2  # a copy


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"server.model": torch.zeros(4)}, r"'server.model' has shape \(4,\) and type torch.float32, not shape \(3,\)"),
        ({"server.model": torch.zeros(3, dtype=torch.float64)}, "'server.model' has shape .3,. and type torch.float64"),
        ({}, "'server.model' is missing"),
    ],
)
def test_what_does_not_fit_is_refused(tensors: dict[str, Tensor], words: str) -> None:
    rest = {name: value for name, value in named("server", STATE).items() if name != "server.model"}
    with pytest.raises(RunError, match=words):
        filled("server", STATE, rest | tensors)
