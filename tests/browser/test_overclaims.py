"""What was wrong in the figures of version 0.1's page. `scripts/test-old-page` shows each test failing there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: pip install 'feddc[dev]'")

from tests.browser.chromium import chromium, missing
from tests.report.by_hand import by_hand, reaching, report

if TYPE_CHECKING:
    from tests.browser.chromium import Browser

pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # selenium leaves its pipe to the driver to the collector
]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("overclaims") / "runs"
    for method in ("fedavg", "scaffold", "feddyn", "feddc"):
        by_hand(folder / method, method, reaching(7, 20))
    with chromium() as browser:
        browser.open(report(folder))
        yield browser


def test_the_cosines_have_the_dashes_of_the_legend(opened: Browser) -> None:
    """They were all solid."""
    opened.click("#tab-drift")
    lines = "document.querySelector(`#${arguments[0]}`).data.filter(t => t.name)"
    dashes = f"Object.fromEntries({lines}.map(t => [t.name, t.line.dash]))"
    assert opened.run(dashes, "plot-cosine") == opened.run(dashes, "plot-gap")
    assert len(set(opened.run(dashes, "plot-cosine").values())) > 1


def test_nothing_of_the_split_is_under_the_toolbar(opened: Browser) -> None:
    """The first client's bar was."""
    opened.click("#tab-split")
    edge = "document.querySelector(`#plot-split ${arguments[0]}`).getBoundingClientRect()[arguments[1]]"
    assert opened.run(edge, ".modebar", "bottom") <= opened.run(edge, ".bars", "top")
