"""The page in a real browser: it draws, it answers, it asks nobody for anything, and what runs contain stays text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: pip install 'feddc[dev]'")

from feddc.report.lines import arrange
from feddc.report.page import render
from feddc.report.runs import collect
from tests.browser.chromium import PHONE, chromium, missing
from tests.cli.test_cli import SMALL, feddc
from tests.report.runs import write_comparison, write_run, write_seeds
from tests.report.test_page import EVIL, EVIL_NAME

if TYPE_CHECKING:
    from tests.browser.chromium import Browser

pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # selenium leaves its pipe to the driver to the collector
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a real comparison."""
    folder = tmp_path_factory.mktemp("real")
    for seed in ("0", "1"):
        runs = str(folder / "runs" / seed)
        assert (
            feddc("compare", *SMALL, "--methods", "fedavg,feddyn,feddc", "--seed", seed, "--quiet", "--out", runs) == 0
        )
    assert feddc("report", str(folder / "runs"), "-o", str(folder / "page.html")) == 0
    return folder / "page.html"


def page(path: Path, runs: Path) -> Path:
    path.write_text(render(arrange(collect([runs])), "test"))
    return path


def drawn(browser: Browser, id: str) -> int:
    """How many lines a figure shows."""
    found = browser.run("document.querySelectorAll(`#${arguments[0]} .scatterlayer .trace .lines path`).length", id)
    return int(found)


def panels(browser: Browser) -> list[str]:
    """The parts of the page that can be seen."""
    return list(
        browser.run("[...document.querySelectorAll('[role=tabpanel]')].filter(e => e.offsetHeight).map(e => e.id)")
    )


def test_it_draws_and_asks_nobody_for_anything(browser: Browser, real: Path) -> None:
    browser.open(real)
    for tab in ("curves", "tables", "drift", "split", "setup"):
        browser.click(f"#tab-{tab}")
        assert panels(browser) == [tab]
    assert drawn(browser, "plot-gap") >= 3
    assert browser.run("document.querySelectorAll('#plot-heat-left .hm, #plot-split .hm').length") == 2
    assert browser.run("document.querySelectorAll('#tables table').length") >= 2
    assert "with these 2 seeds" in browser.run("document.querySelector('h1').innerText")
    assert browser.console() == []
    assert browser.requests() == []


def test_the_figures_cannot_be_uploaded(browser: Browser, real: Path) -> None:
    browser.open(real)
    titles = browser.run("[...document.querySelectorAll('.modebar-btn')].map(e => e.dataset.title)")
    assert "Zoom" in titles
    assert not [title for title in titles if "hare" in title or "loud" in title]


def test_methods_are_switched_off_and_on(browser: Browser, real: Path) -> None:
    browser.open(real)
    before = drawn(browser, "plot-curves")
    browser.click(".chip")
    assert browser.run("document.querySelector('.chip').getAttribute('aria-pressed')") == "false"
    assert drawn(browser, "plot-curves") < before
    browser.click("#tab-drift")
    assert browser.run("document.querySelector('#plot-gap').data.filter(t => t.name).map(t => t.name)") == [
        "FedDyn",
        "FedDC",
    ]
    browser.click("#tab-curves")
    browser.click(".chip")
    assert drawn(browser, "plot-curves") == before


def test_axes_targets_and_bands(browser: Browser, real: Path) -> None:
    browser.open(real)
    shapes = "document.querySelector('#plot-curves').layout.shapes.length"
    assert browser.run(shapes) == 1
    browser.click("input[name=goals]")
    assert browser.run(shapes) == 0
    traces = "document.querySelector('#plot-curves').data.length"
    assert browser.run(traces) == 6
    browser.click("input[name=bands]")
    assert browser.run(traces) == 3
    for x, title in (("megabytes", "megabytes moved, both ways"), ("seconds", "seconds"), ("round", "round")):
        browser.click(f"input[value={x}]")
        assert browser.run("document.querySelector('#plot-curves .xtitle').textContent") == title
    browser.click("input[value=loss]")
    assert browser.run("document.querySelector('#plot-curves .ytitle').textContent") == "test loss"
    assert "y=loss" in browser.run("location.hash")
    assert browser.console() == []


def test_error_on_a_logarithmic_axis_and_a_zoom_to_the_top(browser: Browser, real: Path) -> None:
    browser.open(real)
    layout = "document.querySelector('#plot-curves').layout"
    score = browser.run("document.querySelector('#plot-curves').data.filter(t => t.name)[0].y.at(-1)")
    whole = browser.run(f"{layout}.yaxis.range")
    browser.click("input[value=top]")
    top = browser.run(f"{layout}.yaxis.range")
    assert top[1] - top[0] < whole[1] - whole[0]
    browser.click("input[value=error]")
    assert browser.run(f"{layout}.yaxis.type") == "log"
    assert browser.run("document.querySelector('#plot-curves .ytitle').textContent") == "test error (%)"
    error = browser.run("document.querySelector('#plot-curves').data.filter(t => t.name)[0].y.at(-1)")
    assert error == pytest.approx(100 - score)
    assert browser.console() == []


def test_every_axis_has_a_name(browser: Browser, real: Path) -> None:
    browser.open(real)
    named = (
        "[...document.querySelectorAll(`#${arguments[0]} .xtitle, #${arguments[0]} .ytitle`)].map(e => e.textContent)"
    )
    assert browser.run(named, "plot-curves") == ["round", "test accuracy (%)"]
    browser.click("#tab-drift")
    assert browser.run(named, "plot-gap") == ["round", "mean ‖θᵢ + hᵢ − w‖"]
    assert browser.run(named, "plot-cosine") == ["round", "mean cosine, 5 rounds"]
    assert browser.run(named, "plot-heat-left") == ["round", "client"]
    browser.click("#tab-split")
    assert browser.run(named, "plot-split") == ["class", "client"]


def test_definitions_are_one_click_away(browser: Browser, real: Path) -> None:
    browser.open(real)
    browser.click("#tab-tables")
    for word in ("best", "last", "speedup", "rounds", "moved", "difference", "deviation"):
        opened = f"document.querySelector('#define-{word}').matches(':popover-open')"
        assert not browser.run(opened)
        assert browser.run(f"document.querySelector('[popovertarget=define-{word}]').offsetHeight") > 0
        browser.click(f"[popovertarget=define-{word}]")
        assert browser.run(opened), word
        browser.run(f"document.querySelector('#define-{word}').hidePopover()")


def test_values_of_alpha_that_failed_are_marked(browser: Browser, tmp_path: Path) -> None:
    write_seeds(tmp_path / "runs", "feddc:alpha=0.01", [[0.5, 0.95]])
    write_seeds(tmp_path / "runs", "feddc:alpha=0.1", [[0.5, 0.6]])
    write_seeds(tmp_path / "runs", "feddc:alpha=1", [[0.5, 0.1]], status="diverged")
    browser.open(page(tmp_path / "page.html", tmp_path / "runs"))
    browser.click("#tab-alpha")
    crosses = "document.querySelector(`#${arguments[0]}`).data.filter(t => t.marker.symbol === 'x').flatMap(t => t.x)"
    assert browser.run(crosses, "plot-alpha") == [1]
    assert browser.run(crosses, "plot-alpha-rounds") == [0.1, 1]
    assert browser.console() == []


def test_the_keyboard_alone_is_enough(browser: Browser, real: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    browser.open(real)
    browser.run("document.querySelector('#tab-curves').focus()")
    ActionChains(browser.driver).send_keys(Keys.ARROW_RIGHT).perform()
    assert panels(browser) == ["tables"]
    ActionChains(browser.driver).send_keys(Keys.END).perform()
    assert panels(browser) == ["setup"]
    ActionChains(browser.driver).send_keys(Keys.HOME, Keys.TAB, Keys.SPACE).perform()
    assert browser.run("document.querySelector('.chip').getAttribute('aria-pressed')") == "false"


def test_dark_and_light(browser: Browser, real: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    browser.open(real, dark=True)
    assert browser.run(background) == "rgb(20, 23, 27)"
    browser.click("#theme")
    assert browser.run(background) == "rgb(255, 255, 255)"


@pytest.mark.parametrize("tab", ["curves", "tables", "drift", "split", "setup"])
def test_on_a_phone_nothing_sticks_out(tab: str, browser: Browser, real: Path) -> None:
    browser.open(real, PHONE)
    browser.click(f"#tab-{tab}")
    assert browser.run("document.documentElement.scrollWidth") == PHONE[0]


def test_print_shows_every_part(browser: Browser, real: Path) -> None:
    browser.open(real)
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.console() == []
    assert panels(browser) == ["curves", "tables", "drift", "split", "setup"]
    assert drawn(browser, "plot-gap") >= 3
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert panels(browser) == ["curves"]


def test_settings_are_chosen(browser: Browser, tmp_path: Path) -> None:
    for split in ("iid", "dirichlet:0.3"):
        write_comparison(tmp_path / "runs" / split, split=split)
    write_run(tmp_path / "runs" / "more" / "x", method="feddc:alpha=1", split="iid")
    browser.open(page(tmp_path / "page.html", tmp_path / "runs"))
    where = "[...document.querySelectorAll('.where')].find(e => e.offsetHeight).innerText"
    first = browser.run(where)
    browser.run("(e => { e.value = 1; e.dispatchEvent(new Event('change')); })(document.querySelector('#setting'))")
    assert browser.run(where) != first
    browser.click("#tab-alpha")
    assert browser.console() == []


def test_what_runs_contain_is_shown_and_not_executed(browser: Browser, tmp_path: Path) -> None:
    runs = tmp_path / "<img src=x onerror=alert(3)>"
    for method in ("feddc", "feddyn"):
        config = write_run(runs / method, method=method) / "config.toml"
        text = config.read_text().replace('data = "digits"', f"data = '{EVIL}'")
        config.write_text(text.replace('method = "', f'method = "{json.dumps(EVIL_NAME)[1:-1]}'))
    browser.open(page(tmp_path / "page.html", runs))
    for tab in ("curves", "tables", "drift", "split", "setup"):
        browser.click(f"#tab-{tab}")
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert EVIL in browser.run("document.querySelector('.where').textContent")
    assert browser.run("document.querySelector('.chip').textContent").startswith("<img src=x onerror=")
    assert browser.run("document.querySelector('#plot-heat-left .gtitle').textContent").startswith("<img src=x")
    assert browser.console() == []
    assert browser.requests() == []


def test_a_running_experiment_is_followed_without_losing_ones_place(browser: Browser, tmp_path: Path) -> None:
    from threading import Thread

    from feddc.report.watch import serve

    for method in ("fedavg", "feddc"):
        write_run(tmp_path / "runs" / method, method=method, done=3)
    with serve(tmp_path / "runs", 0) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            browser.open(f"http://127.0.0.1:{server.server_address[1]}/")
            browser.run("Plotly.relayout('plot-curves', {'xaxis.range[0]': 1, 'xaxis.range[1]': 2})")
            browser.click("#tab-drift")
            browser.click(".chip")
            (write_run(tmp_path / "later", done=9) / "records.jsonl").replace(tmp_path / "runs/feddc/records.jsonl")
            browser.wait("document.querySelector('#setup').textContent.includes('9 of 20')")
            assert panels(browser) == ["drift"]
            assert browser.run("document.querySelector('.chip').getAttribute('aria-pressed')") == "false"
            browser.click("#tab-curves")
            assert browser.run("document.querySelector('#plot-curves').layout.xaxis.range") == [1, 2]
            asked = {url.split("/", 3)[2].partition(":")[0] for url in browser.requests()}
            assert asked == {"127.0.0.1"}
            assert browser.console() == []
        finally:
            browser.driver.get("about:blank")
            server.shutdown()
            thread.join()
