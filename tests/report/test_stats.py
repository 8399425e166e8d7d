"""What seeds allow to say: the numbers are scipy's, and too few seeds say nothing."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from feddc.report.numbers.ranking import Criterion, rank
from feddc.report.numbers.stats import Paired, correct, paired, spread
from feddc.report.numbers.units import amount, bound, clock, sparkline


def test_paired_differences_are_those_of_the_t_test() -> None:
    one, other = {0: 0.91, 1: 0.94, 2: 0.93, 7: 0.5}, {0: 0.90, 1: 0.91, 2: 0.92, 9: 0.1}
    found = paired(one, other)
    wanted = stats.ttest_rel([0.91, 0.94, 0.93], [0.90, 0.91, 0.92])
    low, high = wanted.confidence_interval(0.95)
    assert found is not None
    assert (found.p, found.low, found.high) == pytest.approx((wanted.pvalue, low, high))
    assert found.difference == pytest.approx(0.05 / 3)
    assert (found.seeds, found.significant) == (3, False)  # p is 0.13


def test_one_seed_says_nothing() -> None:
    assert paired({0: 1.0}, {0: 2.0}) is None
    assert paired({0: 1.0, 1: 2.0}, {0: 2.0, 3: 2.0}) is None


def test_equal_differences_do_not_make_certainty() -> None:
    found = paired({0: 1.0, 1: 2.0}, {0: 0.5, 1: 1.5})
    assert found is not None
    assert not found.significant
    assert found.high == math.inf
    rounds = paired({0: 26, 1: 27}, {0: 21, 1: 22}, step=1)  # 5 and 5: known to a round only
    assert rounds is not None
    assert not rounds.significant
    many = paired(dict.fromkeys(range(5), 26), dict.fromkeys(range(5), 11), step=1)
    assert many is not None
    assert many.significant


def test_rounding_is_as_large_as_the_values_are() -> None:
    large = paired({0: 1e6, 1: 2e6 + 1e-4}, {0: 1e6 - 1, 1: 2e6 - 1})  # 1 and 1.0001 of millions
    assert large is not None
    assert large.high == math.inf
    small = paired({0: 1e-6, 1: 2e-6}, {0: 0.5e-6, 1: 1.4e-6})
    assert small is not None
    assert small.high < math.inf


def test_differences_that_are_equal_up_to_rounding_are_equal() -> None:
    one, other = {0: 0.06, 1: 0.93, 2: 0.97}, {0: 0.05, 1: 0.92, 2: 0.96}
    assert len({one[seed] - other[seed] for seed in one}) > 1  # 0.01, and what floats make of it
    found = paired(one, other)
    assert found is not None
    assert (found.p, found.corrected, found.significant) == (1.0, 1.0, False)


def test_identical_values_show_nothing() -> None:
    for step in (0.0, 1.0):
        found = paired({0: 3.0, 1: 4.0}, {0: 3.0, 1: 4.0}, step)
        assert found is not None
        assert not found.significant


def test_comparisons_are_corrected_for_their_number() -> None:
    """Holm: the smallest of four p-values times four, the next times three, and never below the one before."""
    found = correct([Paired(1.0, 0.5, 1.5, p, 3, p) for p in (0.01, 0.04, 0.005, 0.03)])
    assert [each.corrected for each in found] == pytest.approx([0.03, 0.06, 0.02, 0.06])
    assert [each.significant for each in found] == [True, False, True, False]
    assert [each.comparisons for each in found] == [4] * 4
    assert [each.corrected for each in correct([Paired(1.0, 0.5, 1.5, 0.8, 3, 0.8)] * 2)] == [1.0, 1.0]
    assert correct([]) == []


def test_spread() -> None:
    assert spread([3.0], 1) == "3.0"
    assert spread([1.0, 3.0], 1) == "2.0 ± 1.4"


def test_units() -> None:
    assert amount(38_000) == "38.0 kB"  # and never 0.0 MB
    assert amount(1e6, 3e6) == "2.00 ± 1.41 MB"
    assert amount(0) == "0 bytes"
    assert clock(0.5) == "0.500 s"
    assert clock(90, 150) == "2.00 ± 0.71 min"


def test_bounds_stay_true_when_they_are_rounded() -> None:
    assert bound(2.4999, above=True) == "2.49"
    assert bound(2.4901, above=False) == "2.5"
    assert bound(95 / 38, above=True) == "2.5"


def test_sparkline_is_of_bounded_length_and_monotone() -> None:
    line = sparkline([i / 100 for i in range(100)], 0.0)
    assert len(line) == 16
    assert list(line) == sorted(line)
    assert (line[0], line[-1]) == ("▁", "█")
    assert sparkline([], 0.0) == ""


def test_one_comparison_is_not_said_to_be_corrected() -> None:
    found = paired({0: 1.0, 1: 2.0, 2: 4.0}, {0: 0.0, 1: 0.5, 2: 1.5})
    assert found is not None
    assert found.test == "paired t-test, 3 seeds, p = 0.063"
    assert [each.test for each in correct([found, found])] == [
        "paired t-test, 3 seeds, p = 0.13 (Holm, 2 comparisons)"
    ] * 2


def test_a_few_bytes_are_counted_one_by_one() -> None:
    assert (amount(999), amount(1000)) == ("999 bytes", "1.00 kB")


def test_a_unit_begins_at_one_of_it() -> None:
    for unit, size in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)):
        assert amount(size) == f"1.00 {unit}"
        assert not amount(0.999 * size).endswith(unit)
    assert (clock(59.9), clock(60)) == ("59.9 s", "1.00 min")
    assert (clock(3599), clock(3600)) == ("60.0 min", "1.00 h")


def test_a_sparkline_goes_from_low_to_high() -> None:
    assert sparkline([0.5, 0.75, 1.0], 0.5) == "▁▅█"
    assert sparkline([0.25, 0.375, 0.5, 0.9], 0.25, 0.5) == "▁▅██"
    assert sparkline([0.1, 0.5], 0.5) == "▁▁"


@pytest.mark.parametrize(("p", "shown"), [(0.0499, True), (0.05, False)])
def test_a_difference_is_shown_where_p_is_below_five_percent(p: float, shown: bool) -> None:
    assert Paired(1.0, 0.5, 1.5, p, 3, p).significant is shown


@pytest.mark.parametrize("methods", [2, 5])
def test_of_equal_methods_one_is_shown_to_be_behind_in_five_percent_of_cases_at_most(methods: int) -> None:
    """The first is chosen by the values that are then tested: corrected for its own comparisons it was up to 10 %."""
    rng = np.random.default_rng(1)
    judge: Criterion = Criterion(lambda line: line.found, True)  # type: ignore[attr-defined]
    shown = 0
    for _ in range(1000):
        scores = rng.normal(size=(methods, 5)).tolist()
        lines: Any = [SimpleNamespace(complete=True, found=dict(enumerate(each))) for each in scores]
        ranking = rank(lines, judge)
        assert ranking is not None
        shown += bool(ranking.behind)
    assert 0 < shown / 1000 <= 0.055
