"""A result in a notebook."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

import feddc
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
