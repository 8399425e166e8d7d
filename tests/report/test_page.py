"""The page as text: what it says, what it holds, and that nothing from a run directory is markup in it."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import feddc
from feddc.report.commands import commands
from feddc.report.lines import Setting, arrange
from feddc.report.page import _json as as_json, body, page as whole, render
from feddc.report.runs import collect
from feddc.report.tables import overview as overview_of
from tests.report.runs import write_comparison, write_run


def settings(path: Path) -> list[Setting]:
    return arrange(collect([path]))


def data(page: str) -> list[Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return list(json.loads(found.group(1)))


class Tags(HTMLParser):
    """Which elements and attributes a page really has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def test_sixty_runs(tmp_path: Path) -> None:
    for seed in range(4):
        for split in ("iid", "dirichlet:0.6", "dirichlet:0.3"):
            write_comparison(
                tmp_path / f"{split}-{seed}",
                ("fedavg", "fedprox", "scaffold", "feddyn", "feddc"),
                seed=seed,
                split=split,
                rounds=8,
            )
    found = settings(tmp_path)
    assert [len(setting.runs) for setting in found] == [20, 20, 20]
    page = body(found)
    assert "Best accuracy (%): digits, 6 clients, 30 % a round" in page
    assert len(page) < 1_000_000
    assert data(page)[0]["lines"][0]["seeds"] == 4
    assert "sd" in data(page)[0]["lines"][0]["curves"]["score"]


def test_published_numbers_stand_beside_cells_of_the_paper(tmp_path: Path) -> None:
    values: Any = {"data": "mnist", "clients": 100, "split": "iid", "target": 0.98, "rounds": 30}
    write_comparison(tmp_path / "c", ("fedavg", "feddc"), **values)
    page = body(settings(tmp_path / "c"))
    assert "rounds, paper" in page
    assert re.search(r"FedDC</th><td>[^<]*</td><td>46</td>", page)  # what the paper prints for FedDC, iid, 15 %
    assert "The paper ran 600 rounds, these runs had 30." in page
    assert "printed as 98.00" in page  # the note on a misprint
    write_comparison(tmp_path / "d", ("fedavg", "feddc"), **values | {"lr": 0.2})
    assert "paper" not in body(settings(tmp_path / "d"))


def test_sensitivity_and_ablation(tmp_path: Path) -> None:
    write_comparison(tmp_path / "c", ("fedavg", "feddc:alpha=0.01", "feddc:alpha=0.1", "feddc:penalty=false"))
    page = body(settings(tmp_path / "c"))
    assert "loss + correction" in page
    [family] = [each for each in data(page)[0]["alpha"] if each["label"] == "FedDC"]
    assert family["alpha"] == [0.01, 0.1]
    assert "α and ablation" not in body(settings(write_comparison(tmp_path / "d")))


def test_runs_without_diagnostics_or_a_split_say_so(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", drift=False)
    (run / "split.json").unlink()
    page = body(settings(run))
    assert "recorded no drift" in page
    assert "hold no <code>split.json</code>" in page


def test_drift_is_told_by_the_next_time_a_client_comes(tmp_path: Path) -> None:
    [setting] = settings(write_run(tmp_path / "r"))
    [page] = data(body([setting]))
    records = setting.runs[0].records
    late = next(i for i, record in enumerate(records) if 0 not in record.participants)
    after = next(record for record in records[late:] if 0 in record.participants)
    assert after.drift is not None
    assert after.drift.drift is not None
    assert page["heat"]["0"]["drift"][0][late] == pytest.approx(after.drift.drift[0], rel=1e-2)
    assert page["heat"]["0"]["update"][0][late] is None


EVIL = '<img src=x onerror="alert(1)"></script><script>alert(2)</script>'
EVIL_NAME = EVIL.replace("/", "")  # with a slash it would be the name of a file


def test_nothing_from_a_run_directory_is_markup(tmp_path: Path) -> None:
    folder = tmp_path / "<b>runs<b>"
    write_run(folder / "a")
    write_run(folder / "b", method="fedavg")
    for name in ("a", "b"):
        config = folder / name / "config.toml"
        text = config.read_text().replace('data = "digits"', f"data = '{EVIL}'")
        config.write_text(text.replace('method = "feddc:alpha=0.1"', f"method = '{EVIL_NAME}:alpha=1'"))
    page = render(settings(folder), EVIL)
    assert EVIL not in page
    found = Tags(body(settings(folder)))
    assert "img" not in found.tags
    assert "<b>runs" not in page
    assert found.tags.count("script") == 1  # the data
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert data(page)[0]["lines"][-1]["label"].startswith("<img")  # it is shown as it is


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    page = render(settings(write_run(tmp_path / "r")), "title")
    head = unescape(page[: page.index("<style>")])
    assert "connect-src 'none'" in head
    assert "default-src 'none'" in head
    assert not re.search(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?!data:)', page)
    assert "connect-src 'self'" in unescape(whole("", "title", live=True)[:5000])


def test_the_commands_give_the_same_configurations(tmp_path: Path) -> None:
    from feddc.cli.options import configurations

    write_comparison(tmp_path / "c", lr=0.05, cohort_size=3, batch_size="none", seed=3, diagnostics=False)
    write_run(tmp_path / "c" / "own", method="fedavg", participation="none", seed=4, lr=0.05)
    [one, two] = arrange(collect([tmp_path / "c"]))
    for setting in (one, two):
        for line in commands(setting):
            assert "--seeds" not in line  # the runs of a setting were repeated with no other seed
            words = [word for word in line.split() if word != "--no-diagnostics"]
            flags = dict(zip(words[2::2], words[3::2], strict=False))
            assert words[:2] in (["feddc", "compare"], ["feddc", "run"])
            methods = flags.pop("--methods", "") or flags.pop("--method", "")
            given: dict[str, Any] = {k[2:].replace("-", "_"): v for k, v in flags.items()}
            given |= {"diagnostics": False} if "--no-diagnostics" in line else {}
            made = configurations(given, methods.split(","))
            assert set(made) <= {run.config for run in setting.runs}


def test_seeds_are_one_command(tmp_path: Path) -> None:
    for seed in (0, 1, 2):
        write_comparison(tmp_path / str(seed), ("fedavg", "feddc"), seed=seed)
    write_run(tmp_path / "more" / "x", method="fedprox", seed=7)
    [setting] = settings(tmp_path)
    both, alone = commands(setting)
    assert both.startswith("feddc compare --methods fedavg,feddc:alpha=0.1 --seeds 0,1,2 --data digits")
    assert "--seed " not in both
    assert alone.startswith("feddc run --method fedprox:")
    assert alone.endswith("--seed 7")


def test_two_seeds_are_one_command(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_run(tmp_path / str(seed), method="fedavg", seed=seed)
    [setting] = settings(tmp_path)
    [line] = commands(setting)
    assert line.startswith("feddc compare --methods fedavg --seeds 1,2 --data digits")
    assert "--seed " not in line


def test_two_methods_are_one_command(tmp_path: Path) -> None:
    [setting] = settings(write_comparison(tmp_path / "c", ("fedavg", "feddc"), seed=5))
    [line] = commands(setting)
    assert line.startswith("feddc compare --methods fedavg,feddc:alpha=0.1 --data digits")
    assert line.endswith("--seed 5")


def test_two_settings_have_a_table_across_them(tmp_path: Path) -> None:
    titles = []
    for split in ("iid", "dirichlet:0.6"):
        write_run(tmp_path / split, split=split)
        found = settings(tmp_path)
        titles.append([overview.title in unescape(body(found)) for overview in overview_of(found)])
    assert titles == [[False] * len(titles[0]), [True] * len(titles[1])]
    assert titles[1]


def test_a_missing_plotly_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "plotly.offline", None)
    with pytest.raises(feddc.ConfigError, match=r"needs plotly, which is not installed: pip install 'feddc\[report\]'"):
        render(settings(write_run(tmp_path / "r")), "title")


def test_how_many_runs_are_unfinished(tmp_path: Path) -> None:
    for seed in (0, 1, 2):
        write_run(tmp_path / f"{seed}", seed=seed, done=3 if seed == 2 else None)
    assert "1 of 3 runs unfinished" in body(arrange(collect([tmp_path])))


def test_what_all_runs_share_is_listed(tmp_path: Path) -> None:
    write_run(tmp_path / "a", seed=3, lr=0.25)
    write_run(tmp_path / "b", seed=4, lr=0.25)
    page = body(settings(tmp_path))
    shared = dict(re.findall(r"<dt>(\w+)</dt><dd>(.*?)</dd>", page))
    assert (shared["lr"], shared["clients"], shared["method"]) == ("0.25", "6", "feddc:alpha=0.1")
    assert not {"seed", "cohort_size", "stop_at"} & set(shared)  # one differs, the others were not given


def test_runs_that_diverged_are_named(tmp_path: Path) -> None:
    write_run(tmp_path / "good", method="fedavg")
    write_run(tmp_path / "lost", status="diverged")
    page = body(settings(tmp_path))
    assert re.findall(r"(\w+) diverged; its records end there", page) == ["lost"]


def test_the_ablation_has_a_tab_of_its_own(tmp_path: Path) -> None:
    write_comparison(tmp_path, ("feddc", "feddc:penalty=false"))
    tables, _, rest = body(settings(tmp_path)).partition('id="alpha"')
    assert "Best accuracy" in tables
    assert "Ablation: the terms of FedDC" not in tables
    assert rest.count("<figcaption>Ablation: the terms of FedDC") == 1


def test_what_is_no_number_is_refused() -> None:
    """Browsers cannot read a page's numbers with NaN among them."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json({"score": float("nan")})
