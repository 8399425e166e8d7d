"""What has changed since a stored result was computed, where it moves the last bits of a run."""

from __future__ import annotations

_EARLY = (
    "Runs of 2cf957a or earlier were stored without the commit that ran them; the commit named here is the one that "
    "stored them. Since then the order of some sums has changed. The same run today has the same course but other last "
    "bits, and may reach a target some rounds earlier or later. For example, the first four rounds of FedDyn on MNIST, "
    "iid, 15 %, seed 0, are 87.88, 90.50, 91.91 and 92.35 % at 75f300e, and 87.88, 90.48, 91.90 and 92.34 % here; "
    "those of FedDC are the same. FedDC and SCAFFOLD then moved four vectors per client and round. Now they move "
    "three, so the bytes shown here are a third too high."
)
MOVED = dict.fromkeys(("35665e4", "82ac3f3", "2cf957a"), _EARLY)
"""For each commit that ran stored results: what moved the bits after it."""
