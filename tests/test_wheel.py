"""What an installed package has to hold besides its modules; the release script runs this on the wheel."""

from __future__ import annotations

from importlib.resources import files

import pytest


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("report", "assets/page.html"),
        ("report", "assets/plots.js"),
        ("paper", "tables/rounds_to_target.csv"),
        ("flower", "template/pyproject.toml"),
        ("", "py.typed"),
    ],
)
def test_the_package_holds_its_files(part: str, name: str) -> None:
    found = files("feddc").joinpath(part, name) if part else files("feddc").joinpath(name)
    assert found.is_file()
