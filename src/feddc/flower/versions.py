"""The versions of Flower that feddc works with: those that its tests have run against, and no newer minor version.

Flower changes its commands and its processes between minor versions; what feddc relies on is listed in
docs/federation.md. A newer one is refused with a sentence instead of failing somewhere in a round.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from ..errors import ConfigError

LOWEST, BELOW = (1, 41), (1, 42)


def check_flower() -> None:
    """ConfigError if the installed Flower is not one that feddc supports."""
    try:
        found = version("flwr")
    except PackageNotFoundError:
        raise ConfigError("Flower is not installed: pip install 'feddc[flower]'") from None
    major, minor, *_ = found.split(".")
    if not LOWEST <= (int(major), int(minor)) < BELOW:
        raise ConfigError(f"flwr {found} is installed, but this feddc needs another: pip install '{requirement()}'")


def requirement() -> str:
    """The bound as pip takes it; pyproject.toml has the same."""
    return f"flwr>={'.'.join(map(str, LOWEST))},<{'.'.join(map(str, BELOW))}"
