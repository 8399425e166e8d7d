"""What a site does to its own update before it leaves: clip, noise, and rounding for secure aggregation.

The server asks for some of it; the site's own config (``--node-config 'update-clip=1.0 update-noise=0.5'``) may ask for
more, and the stricter of the two is done. It is done by the feddc that the site installed, on the vectors themselves;
with pinned apps (docs/federation.md) no code that the server sends is in between.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...engine.screening import LARGEST
from ...errors import check, check_number
from ...models import Buffers
from ...trust.privacy import clipped, noise_like
from ...trust.secure import Lattice
from ...types import Rows
from .demands import CLIP, MASKED, NOISE


@dataclass(frozen=True)
class SiteGuard:
    """What is done to this site's updates in this round."""

    clip: float | None = None
    noise: float = 0.0
    """The standard deviation of the noise."""
    lattice: Lattice | None = None
    silent: bool = False
    """Whether figures such as an update's length stay here too."""

    def used(self, delta: Rows) -> Rows:
        """The update that is sent, and that this client remembers."""
        if self.clip is not None:
            delta, _ = clipped(delta, self.clip)
        if self.noise:
            delta = delta + noise_like(delta, self.noise, np.random.default_rng(secrets.randbits(256)))
        return delta if self.lattice is None else self.lattice.rounded(delta)


def site_guard(config: Mapping[str, Any], node: Mapping[str, Any], buffers: Buffers) -> SiteGuard:
    """The stricter of what the server's question and this site's config ask for."""
    asked = {key.removeprefix("guard."): value for key, value in config.items() if key.startswith("guard.")}
    clips = [float(each) for each in (asked.get("clip"), node.get(CLIP)) if each is not None]
    for each in clips:
        check_number(CLIP, each, 0, above=True)
    clip, own = min(clips, default=None), float(node.get(NOISE, 0.0))
    check_number(NOISE, own, 0)
    check(clip is not None or not own, f"{NOISE} is in units of {CLIP}: this node's config needs both")
    wanted = float(asked.get("noise", 0.0))
    check_number("the noise that the server asks for", wanted, 0, LARGEST)
    noise = max(wanted, own * (clip or 0.0))
    check(("bits" in asked) == ("range" in asked), "the server asks for rounding without saying how")
    lattice = Lattice(float(asked["range"]), asked["bits"]) if "bits" in asked else None
    hidden = MASKED not in node or lattice is not None
    check(hidden, f"updates of this site leave under masks only ({MASKED}), and the server asks for a bare one")
    guarded = clip is not None or lattice is not None
    bare = buffers.floats.numel() == 0
    check(
        bare or not guarded, "this site's updates are to be guarded, which does not cover buffers such as BatchNorm's"
    )
    return SiteGuard(clip, noise, lattice, guarded)
