"""The report as one HTML page that needs nothing else: no network, no server, no other file.

The text is a Jinja template that escapes everything; the figures are drawn by plotly.js, which is in the page, from the
numbers in its JSON block. A content security policy with the hashes of the page's own scripts forbids everything else:
what a run directory contains can neither execute nor load anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import feddc

from ..engine.growth import warning
from ..errors import ConfigError
from ..study.config import Config
from .about import facts
from .commands import commands
from .definitions import DEFINITIONS
from .figures import series
from .figures.styles import styles
from .headline import headline
from .lines import Line, Setting, describe
from .numbers.measure import Measure
from .pages import misprints
from .tables import ablation_table, all_tables, goals, overview
from .tables.clients import site_table, strips

if TYPE_CHECKING:
    import jinja2

SCRIPTS = ("page.js", "plots.js")


def render(settings: Sequence[Setting], title: str) -> str:
    """The report of these settings as a whole page."""
    return page(body(settings), title)


def page(inside: str, title: str, *, live: bool = False) -> str:
    """A whole page around what ``body`` made. A ``live`` one asks the server that it came from for news."""
    with _needs("plotly"):
        from plotly.offline import get_plotlyjs
    scripts = [get_plotlyjs(), "\n".join(_asset(name) for name in SCRIPTS)]
    content = {"title": title, "css": _asset("page.css"), "scripts": scripts, "policy": _policy(scripts, live)}
    return _template("page.html").render(**content, body=inside, live=live)


def check_installed() -> None:
    """Refuse in a sentence where a package is missing that the page is made with."""
    with _needs("plotly"):
        import plotly.offline  # noqa: F401
    with _needs("jinja2"):
        import jinja2  # noqa: F401


def body(settings: Sequence[Setting]) -> str:
    """What changes while runs are under way: the text, the tables and the numbers, without styles and scripts."""
    return _template("body.html").render(
        settings=[_texts(setting) for setting in settings],
        overview=overview(settings) if len(settings) > 1 else [],
        clients=any(strips(each) or any(site_table(line) for line in each.lines) for each in settings),
        sensitive=any(series.sensitivity(each) or ablation_table(each) for each in settings),
        data=_json([_numbers(settings, setting) for setting in settings]),
        definitions={key: _defined(text) for key, text in DEFINITIONS.items()},
        version=feddc.__version__,
    )


def _texts(setting: Setting) -> dict[str, Any]:
    """What the template writes out for one setting."""
    runs = setting.runs
    values = {field.name: [getattr(run.config, field.name) for run in runs] for field in fields(Config)}
    return {
        "title": setting.title,
        "description": describe(setting.config),
        "headline": headline(setting),
        "unfinished": sum(run.status == "unfinished" for run in runs),
        "warnings": [f"{run.path}: {found}" for run in runs if (found := warning(run.records, run.config.method))],
        "diverged": [str(run.path) for run in runs if run.status == "diverged"],
        "tables": [table for table in all_tables(setting) if table.key != "ablation"],
        "ablation": ablation_table(setting),
        "sensitivity": series.sensitivity(setting),
        "misprints": misprints([setting]),
        "drift": any(record.drift is not None for run in runs for record in run.records),
        "split": series.split(setting),
        "shared": {key: v[0] for key, v in values.items() if len(set(v)) == 1 and v[0] is not None},
        "runs": runs,
        "facts": facts(runs),
        "strips": strips(setting),
        "sites": [table for line in setting.lines if (table := site_table(line)) is not None],
        "commands": commands(setting),
    }


def _numbers(settings: Sequence[Setting], setting: Setting) -> dict[str, Any]:
    """What the figures draw for one setting."""
    looks = styles(setting.lines)
    return {
        "title": setting.title,
        "measure": _measure(setting.measure),
        "target": setting.measure.shown(setting.target),
        "goals": [setting.measure.shown(goal) for goal in goals(setting)],
        "lines": [_line(line) | look._asdict() for line, look in zip(setting.lines, looks, strict=True)],
        "heat": series.heats(settings, setting),
        "split": series.split(setting),
        "alpha": series.sensitivity(setting),
        "strips": strips(setting),
    }


def _line(line: Line) -> dict[str, Any]:
    return {
        "label": line.label,
        "name": line.name,
        "seeds": len(line.drawn),
        "curves": series.curves(line),
        "drift": series.drift_curves(line),
    }


def _measure(measure: Measure) -> dict[str, Any]:
    names = {"name": measure.name, "title": measure.title}
    return {**names, "higher": measure.higher_is_better, "share": measure.percent}


def _defined(text: str) -> tuple[str, str]:
    """A definition as the word that it defines and the rest."""
    _, word, rest = text.split("**")
    return word, rest


def _json(content: Any) -> str:
    """JSON that can stand inside a script element: nothing in it can end the element or open another."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(scripts: Sequence[str], live: bool) -> str:
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    connect = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def _template(name: str) -> jinja2.Template:
    with _needs("jinja2"):
        import jinja2
    loader = jinja2.FunctionLoader(_asset)
    settings: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}
    return jinja2.Environment(loader=loader, autoescape=True, **settings).get_template(name)


@contextmanager
def _needs(package: str) -> Iterator[None]:
    """Around the import of a package that is not installed with feddc alone."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"the report needs {package}, which is not installed: pip install 'feddc[report]'") from error


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")
