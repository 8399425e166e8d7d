"""`feddc flower new`: a Flower app that runs as it is, with a place for one's own data."""

from __future__ import annotations

import keyword
import re
from importlib import resources
from pathlib import Path

from ..errors import ConfigError, RunError

NAME = "hospitals"
"""The app's name in the template."""


def write_app(folder: Path) -> str:
    """Write a new app into ``folder``, which must not exist or be empty; its name, made from the folder's."""
    name = re.sub(r"\W+", "_", folder.resolve().name.lower(), flags=re.ASCII).strip("_")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ConfigError(f"'{folder.name}' cannot be the name of a Python package: choose letters, digits and '_'")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} exists and is not empty: choose another; nothing was overwritten")
    package = folder / name
    package.mkdir(parents=True)
    template = resources.files(__package__) / "template"
    for file, place in {
        "pyproject.toml": folder,
        "server.py": package,
        "client.py": package,
        "task.py": package,
    }.items():
        text = (template / file).read_text(encoding="utf-8")
        (place / file).write_text(text.replace(NAME, name), encoding="utf-8")
    (package / "__init__.py").write_text("", encoding="utf-8")
    return name
