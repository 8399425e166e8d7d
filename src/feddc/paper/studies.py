"""The experiments of the FedDC paper as lists of cells, with the paper's settings.

A study is a function that yields the cells of one table or figure; ``select`` narrows it. To add one: write the
function, add its line to STUDIES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from ..errors import ConfigError, check, unknown
from ..options import Precision
from ..specs import Spec
from ..study.cells import Cell
from ..study.config import Config, resolve
from . import beyond, flamby
from .flamby import Section
from .published import published_accuracy, published_rounds, targets

SPLITS = {"iid": "iid", "d1": "dirichlet:0.6", "d2": "dirichlet:0.3", "unbalanced": "iid+unbalanced:0.3"}
FIVE = ("fedavg", "fedprox", "scaffold", "feddyn", "feddc")
ALPHAS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
ABLATION = {
    "fedavg": "fedavg",
    "feddc(le)": "feddc:penalty=false:correction=false",
    "feddc(lelp)": "feddc:correction=false",
    "feddc(lelg)": "feddc:penalty=false",
    "feddc(lelplg)": "feddc",
}
ADAPTIVE = {
    "fedadam": "fedadam",
    "fedyogi": "fedyogi",
    "fedadagrad": "fedadagrad",
    "feddc": "feddc",
    "feddc+adam": "feddc:server=adam",
    "feddc+yogi": "feddc:server=yogi",
    "feddc+adagrad": "feddc:server=adagrad",
}
# What the authors ran where clients have different sizes; with equal ones their forms and the defaults are the same.
AUTHORS = {"scaffold": "scaffold:form=feddc", "feddc": "feddc:steps=nominal"}
# FedDC's α with 500 clients, where the appendix has another one than with 100.
ALPHA_500 = {"mnist": 0.2, "cifar10": 0.05, "cifar100": 0.05}


def cell(
    data: str, split: str, clients: int, participation: float, row: str, method: str, *, stop: bool = False
) -> Cell:
    """One cell with the paper's settings; ``stop`` ends it once the highest target of its data set is reached."""
    if split == "unbalanced":
        method = AUTHORS.get(method, method)
    values: dict[str, object] = {"data": data, "clients": clients, "participation": participation, "method": method}
    if not data.startswith("synthetic"):
        values["split"] = SPLITS[split]
    if clients == 500 and row == "feddc":
        values["alpha"] = ALPHA_500[data]
    name = Spec.parse(data).name
    goals = targets(name) if stop else ()
    if goals:
        values |= {"target": goals[-1], "stop_at": goals[-1]}
    if goals:
        published = tuple(published_rounds(name, split, participation, goal, row) for goal in goals)
    elif name == "synthetic":
        published = (published_accuracy(f"synthetic-{split}", "", clients, participation, row),)
    else:
        published = (published_accuracy(name, split, clients, participation, row),)
    group = f"{name}, {clients} clients, {100 * participation:g} %"
    return Cell(group, row, split, resolve(values), goals, published)


def rounds() -> Iterator[Cell]:
    """Rounds to a target accuracy: the main table and the four of the appendix."""
    for data in ("mnist", "fashion-mnist", "emnist-l", "cifar10", "cifar100"):
        for participation in (0.15, 1.0):
            for split in ("iid", "d1", "d2"):
                for method in FIVE:
                    yield cell(data, split, 100, participation, method, method, stop=True)


def accuracy() -> Iterator[Cell]:
    """Best accuracy: 100, 500 and 20 clients, iid, D1, D2, unbalanced, synthetic."""
    for participation in (0.15, 1.0):
        for data in ("mnist", "cifar10", "cifar100"):
            for split in SPLITS:
                yield from (cell(data, split, 100, participation, each, each) for each in FIVE)
        for data in ("cifar10", "cifar100"):
            yield from (cell(data, "iid", 500, participation, each, each) for each in FIVE)
        yield from _synthetic(participation)


def curves() -> Iterator[Cell]:
    """Every convergence figure: all data sets and splits, 100 clients; 500 clients; synthetic. No early stop."""
    for participation in (0.15, 1.0):
        for data in ("mnist", "fashion-mnist", "emnist-l", "cifar10", "cifar100"):
            for split in SPLITS:
                if split != "unbalanced" or data in ("mnist", "cifar10", "cifar100"):
                    yield from (cell(data, split, 100, participation, each, each) for each in FIVE)
        yield from _synthetic(participation)
    for data in ("mnist", "cifar10", "cifar100"):
        yield from (cell(data, "iid", 500, 1.0, each, each) for each in FIVE)


def alpha() -> Iterator[Cell]:
    """Sensitivity of FedDC to α."""
    for data in ("mnist", "cifar10"):
        for participation in (0.15, 1.0):
            for value in ALPHAS:
                yield replace(
                    cell(data, "iid", 100, participation, f"alpha={value:g}", f"feddc:alpha={value:g}"),
                    published=(None,),
                )


def ablation() -> Iterator[Cell]:
    """FedDC's terms: loss, penalty, gradient correction."""
    for data in ("cifar10", "mnist"):  # the paper has CIFAR-10 only
        for split in ("iid", "d2"):
            yield from (cell(data, split, 100, 0.15, row, method) for row, method in ABLATION.items())


def precision() -> Iterator[Cell]:
    """FedDC on CIFAR-10 to 80 % with products in float32 and in bf16: does bf16 change more than a seed does?"""
    for each in ("float32", "bf16"):
        same = _up_to(cell("cifar10", "iid", 100, 0.15, "feddc", "feddc", stop=True), 0.8)
        yield replace(same, row=each, config=replace(same.config, precision=each))


def adaptive() -> Iterator[Cell]:
    """Adaptive server methods on CIFAR-100, 15 %; and FedDC with each of them, which the paper does not have."""
    for split in ("iid", "d1", "d2"):
        yield from (cell("cifar100", split, 100, 0.15, row, method) for row, method in ADAPTIVE.items())


def tiny_imagenet() -> Iterator[Cell]:
    """Tiny ImageNet, 20 clients, 10 rounds, ResNet18: --weights FILE starts from ImageNet's, as the paper did."""
    for split in ("iid", "d1", "d2"):
        yield from (cell("tiny-imagenet", split, 20, 1.0, each, each) for each in FIVE)


def _synthetic(participation: float) -> Iterator[Cell]:
    for pair in ("0-0", "1-0", "0-1"):
        gamma1, gamma2 = pair.split("-")
        data = f"synthetic:gamma1={gamma1}:gamma2={gamma2}"
        yield from (cell(data, pair, 20, participation, each, each) for each in FIVE)


STUDIES: dict[str, Callable[[], Iterator[Cell]]] = {
    "rounds": rounds,
    "accuracy": accuracy,
    "curves": curves,
    "alpha": alpha,
    "ablation": ablation,
    "adaptive": adaptive,
    "tiny-imagenet": tiny_imagenet,
    "flamby-heart": flamby.heart,
    "precision": precision,
    "riddle": beyond.riddle,
    "unbalanced": beyond.unbalanced,
    "beyond": beyond.beyond,
}
SECTIONS: dict[str, Callable[[Mapping[str, Sequence[Sequence[float]]]], Section]] = {"flamby-heart": flamby.section}
"""What a study shows besides the tables that all studies have; see ``flamby.section``."""


@dataclass(frozen=True)
class Selection:
    """Which part of a study to run; None is all of it."""

    data: Sequence[str] | None = None
    split: Sequence[str] | None = None
    clients: Sequence[str] | None = None
    participation: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    seeds: Sequence[int] = (0,)
    rounds: int | None = None
    target: float | None = None
    """Stop at this one of a cell's targets instead of at the highest."""
    precision: Sequence[str] | None = None
    """Run each cell in these precisions, each in a row of its own, instead of in the study's."""


def select(study: str, chosen: Selection) -> list[Cell]:
    """The cells of a study that the selection asks for, once for each seed."""
    if study not in STUDIES:
        raise unknown("study", study, STUDIES)
    cells = list(STUDIES[study]())
    for name in ("data", "split", "clients", "participation", "methods"):
        wanted = getattr(chosen, name)
        if wanted is not None:
            known = {_value(each, name) for each in STUDIES[study]()}
            for value in wanted:
                if value not in known:
                    raise ConfigError(f"in study '{study}': {unknown(name, value, known)}")
            cells = [each for each in cells if _value(each, name) in wanted]
    check(
        bool(cells),
        f"no cell of study '{study}' has all that was asked for: `feddc reproduce {study} --list` shows them",
    )
    check(bool(chosen.seeds), "seeds must name at least one seed")
    if chosen.rounds is not None:
        cells = [replace(each, config=replace(each.config, rounds=chosen.rounds)) for each in cells]
    if chosen.target is not None:
        cells = [_up_to(each, chosen.target) for each in cells]
    if chosen.precision is not None:
        check(bool(chosen.precision), "precision must name at least one precision")
        cells = [_in_precision(each, value, chosen.precision) for each in cells for value in chosen.precision]
    return [replace(each, config=replace(each.config, seed=seed)) for each in cells for seed in chosen.seeds]


def _up_to(each: Cell, target: float) -> Cell:
    """The cell with its higher targets left out."""
    if target not in each.targets:
        known = ", ".join(f"{goal:g}" for goal in each.targets) or "none"
        raise ConfigError(f"--target {target:g} is not a target of {each.group} (these are: {known})")
    kept = each.targets.index(target) + 1
    config = replace(each.config, target=target, stop_at=target)
    return replace(each, config=config, targets=each.targets[:kept], published=each.published[:kept])


def _in_precision(each: Cell, value: str, asked: Sequence[str]) -> Cell:
    """The cell in this precision, which its row says where there are several."""
    row = each.row if len(asked) == 1 else f"{each.row}, {value}"
    return replace(each, row=row, config=replace(each.config, precision=cast(Precision, value)))


def _value(each: Cell, name: str) -> str:
    config: Config = each.config
    values = {
        "data": Spec.parse(config.data).name,
        "split": each.column,
        "clients": str(config.clients),
        "participation": f"{config.participation or 1:g}",
        "methods": each.row,
    }
    return values[name]
