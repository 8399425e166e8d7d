"""The columns that compare a line with another one: speed-up over FedAvg, and differences with their interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean, stdev

from ..lines import Line, Reach, Setting
from ..numbers.units import bound
from .columns import Entry, TableColumn


def speedup(setting: Setting, target: float) -> TableColumn:
    """FedAvg's mean rounds over the method's; a bound where one of them did not get there with every seed."""

    def make(line: Line) -> Entry:
        base = setting.baseline(line)
        if base is None or not base.ran:
            return Entry("–")
        if base is line:
            return Entry("1×", {"mean": 1.0})
        mine, theirs = line.reach(target), base.reach(target)
        if len(mine) < len(line.ran) or len(theirs) < len(base.ran):
            return Entry("not yet")
        return ratio([(theirs[seed], mine[seed]) for seed in mine if seed in theirs])

    return TableColumn("speedup", "speed-up", make, "speedup")


def ratio(pairs: Sequence[tuple[Reach, Reach]]) -> Entry:
    """The first's mean rounds over the second's, and how much that varies from seed to seed."""
    if not pairs:
        return Entry("–")
    value = mean(one.rounds for one, _ in pairs) / mean(two.rounds for _, two in pairs)
    whole = all(one.reached for one, _ in pairs), all(two.reached for _, two in pairs)
    if whole == (True, True):
        each = [one.rounds / two.rounds for one, two in pairs]
        several = {"sd": stdev(each)} if len(each) > 1 else {}
        text = f"{value:.2f}×" + (f" ± {several['sd']:.2f}" if several else "")
        return Entry(text, {"mean": value, **several, "n": len(pairs)})
    if whole == (False, True):
        least = f">{bound(value, above=True)}"
        return Entry(f"{least}×", {"bound": least, "n": len(pairs)})
    if whole == (True, False):
        most = f"<{bound(value, above=False)}"
        return Entry(f"{most}×", {"bound": most, "n": len(pairs)})
    return Entry("–")


def difference(setting: Setting, base: Line, lines: Sequence[Line], shown: TableColumn) -> TableColumn:
    """How much lines differ from ``base`` in a column, with the interval of the paired differences over seeds."""

    judge = shown.judge
    assert judge is not None
    judged = [line for line in lines if line.complete and base.complete]
    compared = [(line, found.reverse()) for _, line, found in judge.compare((base, line) for line in judged)]

    def make(line: Line) -> Entry:
        if line is base:
            return Entry("–")
        if not (line.complete and base.complete):
            return Entry("not judged")
        found = next((each for other, each in compared if other is line), None)
        if found is None:
            return Entry("one seed" if min(len(line.runs), len(base.runs)) < 2 else "no common seeds")
        scale, digits = {"best": (setting.measure.shown(1.0), setting.measure.digits), "bytes": (1e-6, 3)}.get(
            shown.key, (1.0, 1)
        )
        centre, low, high = (scale * each for each in (found.difference, found.low, found.high))
        short = shown.key != "best" and any(
            not each.reached for one in (line, base) for each in one.reach(setting.target).values()
        )
        if short and found.high == math.inf:
            return Entry("not judged")
        text = f"{centre:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f}), p = {found.corrected:.2g}"
        text = text.replace("-", "−") + (", a bound" if short else "")
        numbers = {"mean": centre, "low": low, "high": high, "p": found.p, "p_holm": found.corrected, "n": found.seeds}
        if found.high == math.inf:
            text = f"{centre:+.{digits}f}, no interval".replace("-", "−")
        return Entry(text, numbers, found.significant)

    heading = f"{shown.heading}, MB" if shown.key == "bytes" else shown.heading
    return TableColumn(f"{shown.key}-difference", heading, make, "difference")
