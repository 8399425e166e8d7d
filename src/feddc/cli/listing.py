"""`feddc list`: every name that the other commands take, with one line and its options."""

from __future__ import annotations

import inspect

import click

from ..errors import unknown
from ..specs import Option


@click.command("list")
@click.argument("kind", required=False)
def list_names(kind: str | None) -> None:
    """List methods, data sets, models, splits, rules and attacks, with their options.

    KIND, such as methods or data, lists one kind only.
    """
    from rich.console import Console
    from rich.table import Table

    from .. import specs
    from ..algorithms import METHODS, SERVERS
    from ..data import DATA, SPLITS
    from ..data.partition import Unbalanced
    from ..models import MODELS
    from ..trust.attacks import ATTACKS
    from ..trust.privacy import PRIVACY
    from ..trust.robust import ROBUST

    kinds: dict[str, specs.Registry] = {
        "methods": METHODS,
        "servers": SERVERS,
        "data": DATA,
        "splits": {**SPLITS, "+unbalanced": Unbalanced},
        "models": MODELS,
        "robust": ROBUST,
        "attacks": ATTACKS,
        "privacy": PRIVACY,
    }
    given = {"data": ("request",), "models": ("shape", "classes")}  # what the program itself passes
    if kind is not None and kind not in kinds:
        raise unknown("kind", kind, kinds)
    console = Console(highlight=False)
    for name in [kind] if kind else kinds:
        shown = Table(title=name, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for column in ("name", "what it is", "options"):
            shown.add_column(column)
        for each, factory in kinds[name].items():
            shown.add_row(each, specs.summary(factory), _options(specs.options(factory, given.get(name, ()))))
        console.print(shown)
        console.print()
    console.print(
        "options are written after the name: feddc:alpha=0.1:server=yogi:server_lr=0.01, dirichlet:0.3, fcn:200:200; "
        "your own method, data or model is named by its file or module: net.py:Net:width=3"
    )


def _options(options: dict[str, Option]) -> str:
    return ", ".join(
        name if option.default is inspect.Parameter.empty else f"{name}={_plain(option.default)}"
        for name, option in options.items()
    )


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ":".join(map(str, value))
    if value is None:
        return "none"
    return str(value) if isinstance(value, str | int | float) else type(value).__name__.lower()
