"""A headless Chromium that keeps an eye on the page: what it logged, and what it asked the network for."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP, PHONE = (1280, 860), (390, 844)


def missing() -> str | None:
    """Why there is no browser to test with, or None."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"no {' and no '.join(absent)}: run scripts/install-test-tools as root" if absent else None


class Browser:
    """What the tests ask of a browser."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, page: Path | str, size: tuple[int, int] = DESKTOP, *, dark: bool = False) -> None:
        """Open a file or an address afresh, with a window of this size."""
        self.driver.get("about:blank")
        self.console()
        self.requests()
        width, height = size
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 760}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        self.driver.get(page if isinstance(page, str) else page.as_uri())
        self.wait("document.body.dataset.ready === 'yes'")

    def run(self, script: str, *args: Any) -> Any:
        """The value of a JavaScript expression."""
        return self.driver.execute_script(f"return ({script})", *args)

    def wait(self, script: str, seconds: float = 30) -> None:
        """Until a JavaScript expression is true."""
        WebDriverWait(self.driver, seconds, poll_frequency=0.1).until(lambda _: self.run(script), f"never: {script}")

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)

    def console(self) -> list[str]:
        """What the page logged since the last call: errors and warnings."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """What the page asked for since the last call, other than the page itself and data in it."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        urls = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith(("data:", "blob:", "file:", "about:"))]

    def screenshot(self, file: Path) -> None:
        self.driver.save_screenshot(str(file))


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with a profile of its own."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory(prefix="feddc-chromium-", ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        service = Service(shutil.which("chromedriver"), log_output=os.devnull)
        driver = webdriver.Chrome(options=options, service=service)
        try:
            yield Browser(driver)
        finally:
            driver.quit()
