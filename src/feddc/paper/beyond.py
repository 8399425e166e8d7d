"""Studies that the paper does not have: what it leaves open, and what it could not know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..study.cells import Cell, Number
from ..study.config import resolve
from .published import published_accuracy, published_rounds

RIDDLE: dict[str, dict[str, Any]] = {
    "as published": {},
    "weight-decay=0": {"weight_decay": 0.0},
    "weight-decay=1e-4": {"weight_decay": 1e-4},
    "alpha=0.05": {"method": "feddc:alpha=0.05"},
    "alpha=0.2": {"method": "feddc:alpha=0.2"},
    "cnn": {"model": "cnn"},
}
FORMS = {
    "fedavg": "fedavg",
    "fedprox": "fedprox",
    "scaffold": "scaffold:form=feddc",
    "scaffold-original": "scaffold",
    "feddyn": "feddyn",
    "feddc": "feddc:steps=nominal",
    "feddc-own-steps": "feddc",
}
"""Rows of the unbalanced study: the paper's five as its authors ran them, and the forms that heed a client's own K."""
NEWER = (
    "fednova",
    "fedcm",
    "fedacg",
    "adabest",
    "fedinit",
    "fedlesam",
    "fedlc",
    "fedntd",
    "fedsam",
    "mofedsam",
    "fedspeed",
    "fedgamma",
    "fedexp",
    "fedadam",
    "fedyogi",
    "fedadagrad",
)
COMBINED: dict[str, dict[str, Any]] = {
    "feddc+sam": {"method": "feddc", "sam": 0.05},
    "feddc+exp": {"method": "feddc:server=exp"},
    "feddc+yogi": {"method": "feddc:server=yogi:server_lr=0.03"},
    "feddc+int8": {"method": "feddc", "compress": "int8"},
    "fedavg+int8": {"method": "fedavg", "compress": "int8"},
}


def riddle() -> Iterator[Cell]:
    """Fashion-MNIST on D1, where FedDC needs over twice the published rounds: what did the authors do otherwise?"""
    same = {"data": "fashion-mnist", "split": "dirichlet:0.6", "clients": 100, "participation": 0.15, "method": "feddc"}
    for row, change in RIDDLE.items():
        printed = published_rounds("fashion-mnist", "d1", 0.15, 0.89, "feddc") if not change else None
        yield _cell(row, "d1", same | {"target": 0.89, "stop_at": 0.89} | change, (0.89,), printed)


def unbalanced() -> Iterator[Cell]:
    """Clients of different sizes: MNIST, five methods, with the authors' one K for all and with each client's own."""
    same = {"data": "mnist", "split": "iid+unbalanced:0.3", "target": 0.98}
    for participation in (0.15, 1.0):
        for row, method in FORMS.items():
            printed = published_accuracy("mnist", "unbalanced", 100, participation, row)
            yield _cell(row, "unbalanced", same | {"participation": participation, "method": method}, (), printed)
    for split, column in (("iid", "iid"), ("iid+unbalanced:0.3", "unbalanced")):
        many = same | {"split": split, "clients": 500, "participation": 1.0, "rounds": 60}
        yield _cell("fedavg", column, many | {"method": "fedavg"})
        yield _cell("feddc", column, many | {"method": "feddc:steps=nominal:alpha=0.2"})
        yield _cell("feddc-own-steps", column, many | {"method": "feddc:alpha=0.2"})


def beyond() -> Iterator[Cell]:
    """Newer methods, FedDC combined with them, and int8 transport: digits with 20 clients, MNIST on D2 at 15 %."""
    digits = {"data": "digits", "rounds": 60, "holdout": 0.2, "target": 0.95}
    mnist = {"data": "mnist", "split": "dirichlet:0.3", "participation": 0.15, "rounds": 100, "target": 0.97}
    five = {name: {"method": name} for name in ("fedavg", "fedprox", "scaffold", "feddyn", "feddc")}
    rows: dict[str, Mapping[str, Any]] = {**five, **{name: {"method": name} for name in NEWER}, **COMBINED}
    for same, column in ((digits, "dirichlet:0.1"), (mnist, "d2")):
        for row, change in rows.items():
            yield _cell(row, column, {**same, **change})


def _cell(
    row: str, column: str, values: Mapping[str, Any], targets: tuple[float, ...] = (), printed: Number | None = None
) -> Cell:
    config = resolve(values)
    group = f"{config.data}, {config.clients} clients, {100 * (config.participation or 1):g} %"
    return Cell(group, row, column, config, targets, (printed,))
