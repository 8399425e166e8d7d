"""Members that come and go: what the server keeps as a mean over all N clients stays that mean.

A method names in ``over_all`` the fields of its server's state that are means over all N clients of the field of the
same name in a client's state, and says for each whether ω_i = n_i / mean(n) weights it:

    FedDC     drift = Σ h_i / N,    variate = Σ ω_i g_i / N

Whoever joins brings zeros, so the sum stays and the mean is divided by more; a new mean(n) divides all ω_i alike. A
client whose own n_i changes keeps ω_i g_i. Of whoever leaves the server never knew h_i and g_i, so it cannot take them
out: all begin again from zero, and so does the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..algorithms import Algorithm


class Sizes(NamedTuple):
    """How many members there are, and how many samples they have on average."""

    members: int
    mean: float


def sizes_of(samples: Mapping[int, int]) -> Sizes:
    """The sizes of these members."""
    return Sizes(len(samples), float(np.mean([*samples.values()])) if samples else 0.0)


def over_all(algorithm: Algorithm) -> Mapping[str, bool]:
    """The fields of the server's state that are means over all clients, and whether ω_i weights them."""
    return getattr(algorithm, "over_all", {})


def resized(algorithm: Algorithm, server: Any, before: Sizes, after: Sizes) -> Any:
    """The server's state after members joined or their samples changed: the same sums, divided by what is there now."""
    count = before.members / after.members
    scales = {
        name: count * (before.mean / after.mean if weighted else 1.0) for name, weighted in over_all(algorithm).items()
    }
    return server._replace(**{name: getattr(server, name) * scale for name, scale in scales.items()})


def restarted(algorithm: Algorithm, server: Any) -> Any:
    """The server's state after somebody left: the model stays, and what was summed up over clients begins from zero."""
    return server._replace(**{name: getattr(server, name) * 0.0 for name in over_all(algorithm)})


def reweighed(algorithm: Algorithm, client: Any, before: int, after: int) -> Any:
    """A client's state after its number of samples changed: what it has contributed, ω_i g_i, stays."""
    weighted = [name for name, by_samples in over_all(algorithm).items() if by_samples]
    return (
        client._replace(**{name: getattr(client, name) * (before / after) for name in weighted}) if weighted else client
    )
