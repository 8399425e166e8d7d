"""Pictures of every tab of pages of every kind, to be looked at: `python -m tests.browser.gallery FOLDER [NAME…]`.

For each page of made-up runs a sheet of its tabs, side by side, on a desktop, a phone and in the dark, and its print.
The tests cannot see what is ugly.
"""

from __future__ import annotations

import base64
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from feddc.report.lines import arrange
from feddc.report.page import render
from feddc.report.runs import collect
from tests.browser.chromium import Browser, chromium
from tests.report.runs import write_comparison, write_run

FOUR = ("fedavg", "scaffold", "feddyn", "feddc")
VIEWS = {"desktop": ((1400, 900), False), "phone": ((390, 844), False), "dark": ((1400, 900), True)}


def one(path: Path) -> None:
    write_run(path / "feddc", rounds=40)


def four(path: Path) -> None:
    write_comparison(path, FOUR, rounds=40)


def seeds(path: Path) -> None:
    for seed in range(3):
        write_comparison(path / str(seed), FOUR, rounds=40, seed=seed)


def sixty(path: Path) -> None:
    for seed in range(4):
        for split in ("iid", "dirichlet:0.6", "dirichlet:0.3"):
            methods = ("fedavg", "fedprox", "scaffold", "feddyn", "feddc")
            write_comparison(path / f"{split}-{seed}", methods, seed=seed, split=split, rounds=30)


def unfinished(path: Path) -> None:
    write_comparison(path, FOUR[:3], rounds=40)
    write_run(path / "feddc", rounds=40, done=12)


def failed(path: Path) -> None:
    write_comparison(path, FOUR[:2], rounds=40)
    for method in ("feddyn", "feddc"):
        records = write_run(path / method, rounds=40, status="diverged", method=method) / "records.jsonl"
        records.write_text("".join(records.read_text().splitlines(keepends=True)[:6]))


def sites(path: Path) -> None:
    names = [{"client": i, "samples": 100 + 37 * i, "update": 1.5 + i, "drift": 0.3 * i} for i in range(6)]
    more = {"seconds": 2.5, "bytes_up": 4 * 10**5, "bytes_down": 8 * 10**5}
    found = [
        {**each, **more, "measures": {"samples": 20, "accuracy": 0.95 - 0.07 * i, "loss": 0.3}}
        for i, each in enumerate(names)
    ]
    write_run(path / "feddc", rounds=20)
    _change(path, sites=found)


def clients(path: Path) -> None:
    write_comparison(path, FOUR, rounds=40)
    rng = np.random.default_rng(0)
    for folder in path.iterdir():
        of = [float(each) for each in np.clip(0.9 - 0.4 * rng.random(40) ** 2, 0, 1)]
        scores = {"scores": of, "mean": float(np.mean(of)), "std": float(np.std(of)), "worst": float(min(of))}
        _change(folder, clients=scores, personal=scores | {"scores": [min(1, each + 0.05) for each in of]})


def lower(path: Path) -> None:
    for seed in range(3):
        for place, method in enumerate(FOUR):
            errors = [2.0 * float(np.exp(-(0.05 + 0.02 * place) * i)) + 0.1 + 0.01 * seed for i in range(40)]
            write_run(path / f"{method}-{seed}", method=method, scores=errors, seed=seed, target=0.5)
    score = {"name": "mse", "higher_is_better": False}
    _change(path, each=lambda record: {"score": score, "metrics": {"mse": record["metrics"]["accuracy"], "loss": 1.0}})


def private(path: Path) -> None:
    write_comparison(path, FOUR, rounds=40)
    _change(path, each=lambda record: {"epsilon": 0.5 * record["round"] ** 0.5})


def alpha(path: Path) -> None:
    values = ("0.01", "0.03", "0.1", "0.3", "1")
    terms = ("feddc:penalty=false", "feddc:correction=false", "feddc:penalty=false:correction=false")
    methods = ("fedavg", *(f"feddc:alpha={each}" for each in values), *(f"feddyn:alpha={each}" for each in values))
    write_comparison(path, (*methods, *terms), rounds=40)
    write_run(path / "lost", method="feddc:alpha=3", rounds=40, status="diverged")


PAGES: dict[str, Callable[[Path], None]] = {
    each.__name__: each for each in (one, four, seeds, sixty, unfinished, failed, sites, clients, lower, private, alpha)
}


def _change(path: Path, each: Callable[[dict[str, Any]], dict[str, Any]] | None = None, **last: Any) -> None:
    """Other fields in every record, or in the last one, of every run below a folder."""
    for file in path.rglob("records.jsonl"):
        records = [json.loads(line) for line in file.read_text().splitlines()]
        records = [record | (each(record) if each is not None else {}) for record in records]
        records[-1] |= last
        file.write_text("".join(json.dumps(record) + "\n" for record in records))


def tabs(browser: Browser) -> list[str]:
    return list(browser.run("[...document.querySelectorAll('[role=tab]')].map(e => e.getAttribute('aria-controls'))"))


def picture(browser: Browser) -> Image.Image:
    """The whole page as it is shown, as far as it goes."""
    whole = {"captureBeyondViewport": True, "format": "png"}
    found = browser.driver.execute_cdp_cmd("Page.captureScreenshot", whole)
    return Image.open(io.BytesIO(base64.b64decode(found["data"])))


def sheet(pictures: list[Image.Image], columns: int) -> Image.Image:
    """Pictures side by side, in rows of so many."""
    rows = [pictures[i : i + columns] for i in range(0, len(pictures), columns)]
    heights = [max(each.height for each in row) for row in rows]
    whole = Image.new("RGB", (columns * (pictures[0].width + 12), sum(heights) + 12 * len(rows)), "#c03090")
    top = 0
    for row, height in zip(rows, heights, strict=True):
        for i, each in enumerate(row):
            whole.paste(each, (i * (each.width + 12), top))
        top += height + 12
    return whole


def look(browser: Browser, page: Path, folder: Path) -> None:
    """The sheets of one page."""
    for view, (size, dark) in VIEWS.items():
        browser.open(page, size, dark=dark)
        found = []
        for tab in tabs(browser):
            browser.click(f"#tab-{tab}")
            browser.run("new Promise(done => setTimeout(done, 150))")
            found.append(picture(browser))
        sheet(found, 4 if size[0] < 760 else 2).save(folder / f"{page.stem}-{view}.png")
    browser.open(page)
    printed = browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": False, "preferCSSPageSize": True})
    (folder / f"{page.stem}-print.pdf").write_bytes(base64.b64decode(printed["data"]))
    if shutil.which("pdftoppm"):
        subprocess.run(["pdftoppm", "-r", "60", "-png", folder / f"{page.stem}-print.pdf", folder / "p"], check=True)
        papers = sorted(folder.glob("p-*.png"))
        sheet([Image.open(each).convert("RGB") for each in papers], 4).save(folder / f"{page.stem}-print.png")
        for each in papers:
            each.unlink()


def main(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        for name in names or PAGES:
            runs = folder / "runs" / name
            shutil.rmtree(runs, ignore_errors=True)
            PAGES[name](runs)
            page = folder / f"{name}.html"
            page.write_text(render(arrange(collect([runs])), name), encoding="utf-8")
            look(browser, page, folder)
            print(name, [line for line in browser.console() if "ERROR" in line or "SEVERE" in line])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
