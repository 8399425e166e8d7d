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
from numpy.typing import NDArray

from ..algorithms import Algorithm
from .cohorts import as_mask


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


class Arrivals:
    """Who is a member in which round: a rounds × clients mask, as seen in the field or made up."""

    def __init__(self, mask: Any, rounds: int, samples: NDArray[np.int64]) -> None:
        """``samples`` is n_i of every client that ever is a member."""
        self.mask, self.samples = as_mask(mask, rounds, len(samples), "arrivals", "no member"), samples

    def members(self, round: int) -> dict[int, int]:
        """The members of a round (from 1) and their samples; none before the first."""
        here = np.flatnonzero(self.mask[round - 1]).tolist() if round else []
        return {client: int(self.samples[client]) for client in here}

    def left(self, round: int) -> bool:
        """Whether somebody who was a member before this round is none in it."""
        return bool(self.members(round - 1).keys() - self.members(round).keys())

    def moved(self, algorithm: Algorithm, server: Any, round: int) -> Any:
        """The server's state at the beginning of a round, after who joined and left."""
        before, now = self.members(round - 1), self.members(round)
        if self.left(round):
            return restarted(algorithm, server)
        return resized(algorithm, server, sizes_of(before), sizes_of(now)) if before else server
