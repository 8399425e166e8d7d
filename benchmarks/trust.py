"""The tables of docs/security.md: attacks against defences, accuracy under privacy, the cost of secure aggregation.

    python -m benchmarks.trust attacks digits        python -m benchmarks.trust privacy digits
    python -m benchmarks.trust attacks mnist         python -m benchmarks.trust privacy mnist
    python -m benchmarks.trust secure                python -m benchmarks.trust attacks digits --split dirichlet:0.3
    python -m benchmarks.trust recovery              python -m benchmarks.trust cuts

Every cell is a configuration of `feddc run`; it is kept in --out and not run again. --smoke runs tiny ones.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from feddc.errors import DivergedError
from feddc.study.cells import Cell
from feddc.study.config import resolve
from feddc.study.rollback import roll_back
from feddc.study.sources import Named
from feddc.study.study import Listener, Study, read_study
from feddc.trust.secure.client import SecureClient
from feddc.trust.secure.messages import Session, session_of
from feddc.trust.secure.server import SecureServer

METHODS = ("fedavg", "scaffold", "feddyn:alpha=0.1", "feddc:alpha=0.1")
ATTACKS = ("none", "sign-flip", "scale", "constant", "little", "labels")
RULES = ("none", "norm:1", "trimmed-mean:0.3", "trimmed-mean:0.3:mean", "median", "centered-clip:1")
FEWER = {"mnist": (("none", "sign-flip", "scale", "labels"), ("none", "norm:1", "trimmed-mean:0.3"))}
"""On a larger data set: fewer attacks and rules."""
GROUPS: list[tuple[int, int]] = [(3, 1), (10, 3)]  # clients, attackers
ATTACKED: dict[str, dict[str, Any]] = {
    "digits": {"data": "digits", "rounds": 20, "model": "fcn:100"},
    "mnist": {"data": "mnist", "rounds": 10, "epochs": 1, "model": "fcn:100"},
}
PRIVATE: dict[str, dict[str, Any]] = {
    "digits": {"data": "digits", "clients": 200, "participation": 0.3, "rounds": 50, "model": "linear"},
    "mnist": {"data": "mnist", "clients": 1000, "participation": 0.1, "rounds": 60},
}
PRIVATE["mnist"] |= {"model": "linear", "batch_size": 10, "epochs": 2}
EPSILONS: list[int | None] = [2, 4, 8, None]
LEARNERS = (
    "fedavg",
    "scaffold",
    "feddyn:alpha=0.1",
    "feddc:alpha=0.1",
    "feddc:alpha=0.1:leak=0.5",
    "feddc:alpha=0.1:leak=1",
)


def accuracy(values: Mapping[str, Any], out: Path) -> float:
    """The mean accuracy of the last three evaluations, read from ``out`` if this cell was run before.

    A run that diverges is stopped by the engine and counts as 0.
    """
    config = resolve({key: value for key, value in values.items() if value is not None})
    key = json.dumps(values, sort_keys=True)
    if out.exists():
        for line in out.read_text().splitlines():
            found = json.loads(line)
            if found["cell"] == key:
                return float(found["accuracy"])
    try:
        records = list(Named().simulation(config).run())
        result = mean([record.accuracy for record in records if record.accuracy is not None][-3:])
    except DivergedError:
        result = 0.0
    with out.open("a") as file:
        print(json.dumps({"cell": key, "accuracy": result}), file=file, flush=True)
    return result


def attacks(data: str, split: str, out: Path, smoke: bool, methods: Sequence[str] = METHODS) -> Iterator[str]:
    """Accuracy in %, a row for each method and attack, a column for each rule."""
    usual = (
        ATTACKED[data] | {"split": split, "participation": 1.0, "diagnostics": False} | ({"rounds": 1} if smoke else {})
    )
    some = slice(0, 2) if smoke else slice(None)
    kinds, rules = FEWER.get(data, (ATTACKS, RULES))
    for clients, bad in GROUPS[some]:
        yield f"\n{bad} attackers of {clients}, {data}, {split}\n"
        yield "| method | attack | " + " | ".join(rules[some]) + " |"
        yield "|---|---|" + "---:|" * len(rules[some])
        for method in methods[some]:
            for attack in kinds[some]:
                cells = []
                for rule in rules[some]:
                    values = usual | {"method": method, "clients": clients, "robust": None if rule == "none" else rule}
                    values["attack"] = None if attack == "none" else f"{attack}:{bad}"
                    found = accuracy(values, out)
                    cells.append(f"{100 * found:.1f}" if found else "stopped")
                yield f"| {method} | {attack} | " + " | ".join(cells) + " |"


def cuts(data: str, _split: str, out: Path, smoke: bool) -> Iterator[str]:
    """What a client remembers of what was cut: FedDC, three attackers of ten, three seeds, data alike and not."""
    usual = ATTACKED[data] | {"participation": 1.0, "diagnostics": False, "clients": 10, "method": "feddc:alpha=0.1"}
    usual |= {"rounds": 1} if smoke else {}
    rules, seeds = ("trimmed-mean:0.3", "trimmed-mean:0.3:mean"), (0,) if smoke else (0, 1, 2)
    yield "| split | attack | " + " | ".join(rules) + " |"
    yield "|---|---|" + "---:|" * len(rules)
    for split in ("iid",) if smoke else ("iid", "dirichlet:0.3"):
        for attack in (None, "sign-flip:3", "constant:3"):
            cells = [
                [
                    accuracy(usual | {"split": split, "attack": attack, "robust": rule, "seed": seed}, out)
                    for seed in seeds
                ]
                for rule in rules
            ]
            name = "none" if attack is None else attack.partition(":")[0]
            yield f"| {split} | {name} | " + " | ".join(map(_shown, cells)) + " |"


def recovery(data: str, split: str, _out: Path, smoke: bool) -> Iterator[str]:
    """Accuracy in % so many honest rounds after an attack of four was noticed, with and without taking it back."""
    usual: dict[str, Any] = ATTACKED[data] | {"split": split, "participation": 1.0, "clients": 3, "diagnostics": False}
    usual |= {"rounds": 20, "attack": "sign-flip:1:from=7:until=10", "keep": 20, "checkpoint": "1"}
    usual |= {"epochs": 1, "model": "linear"} if smoke else {}
    honest, seeds = (1,) if smoke else (1, 3, 6, 10), (0,) if smoke else (0, 1, 2)
    yield "| method | rule | rounds 7 to 10 | before | " + " | ".join(f"after {each}" for each in honest) + " |"
    yield "|---|---|---|---:|" + "---:|" * len(honest)
    for method in METHODS[:1] if smoke else METHODS:
        for rule in (None, "trimmed-mean:0.3"):
            for back in (False, True):
                found = [recovered(usual | {"method": method, "robust": rule, "seed": seed}, back) for seed in seeds]
                noticed = 6 if back else 10
                shown = [_shown([each.get(round) for each in found]) for round in (6, *(noticed + n for n in honest))]
                kept = "taken back" if back else "attacked"
                yield f"| {method} | {rule or 'none'} | {kept} | " + " | ".join(shown) + " |"


def recovered(values: Mapping[str, Any], back: bool) -> dict[int, float]:
    """The accuracy of every round of an attacked run, from round 6 taken back if so; a run that diverges ends early."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "run"
        cell = Cell("", "", "", resolve({key: value for key, value in values.items() if value is not None}))
        [outcome] = Study("run", (cell,), place).run(Named(), Listener()).values()
        if back:
            roll_back(place, len(outcome.records) - 6, attack=None)
            [outcome] = read_study(place).run(Named(), Listener()).values()
        return {record.round: record.accuracy for record in outcome.records if record.accuracy is not None}


def _shown(found: Sequence[float | None]) -> str:
    """Mean and spread in %, of the runs that got so far."""
    there = [100 * each for each in found if each is not None]
    if len(there) < len(found):
        return f"{len(found) - len(there)} of {len(found)} stopped"
    return f"{mean(there):.1f}" + (f" ± {stdev(there):.1f}" if len(there) > 1 else "")


def privacy(data: str, split: str, out: Path, smoke: bool) -> Iterator[str]:
    """Accuracy in %, mean and standard deviation of three seeds, a row for each method, a column for each ε."""
    usual = (
        PRIVATE[data] | {"split": split, "diagnostics": False, "evaluate_every": 2} | ({"rounds": 2} if smoke else {})
    )
    drawn: dict[str, list[tuple[float, float]]] = {}
    some, seeds = (slice(0, 1), (0, 1)) if smoke else (slice(None), (0, 1, 2))
    yield "| method | " + " | ".join("∞" if each is None else f"ε = {each}" for each in EPSILONS[some]) + " |"
    yield "|---|" + "---:|" * len(EPSILONS[some])
    for method in LEARNERS[some]:
        cells, drawn[method] = [], []
        for epsilon in EPSILONS[some]:
            guard = {"epsilon": epsilon, "privacy": "central:clip=0.5" + ("" if epsilon else ":noise=0")}
            found = [100 * accuracy(usual | guard | {"method": method, "seed": seed}, out) for seed in seeds]
            cells.append(f"{mean(found):.1f} ± {stdev(found):.1f}")
            drawn[method].append((mean(found), stdev(found)))
        yield f"| {method} | " + " | ".join(cells) + " |"
    draw(drawn, f"{data}, {usual['clients']} clients", out.with_suffix(".png"))


def draw(rows: Mapping[str, Sequence[tuple[float, float]]], title: str, file: Path) -> None:
    """Accuracy against ε, a line for each method, with the standard deviation of the seeds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.6), layout="constrained")
    axes = figure.subplots()
    names = ["∞" if each is None else str(each) for each in EPSILONS]
    for method, found in rows.items():
        middle, spread = zip(*found, strict=True)
        axes.errorbar(names[: len(found)], middle, spread, label=method, marker="o", capsize=3)
    axes.set(xlabel="ε (δ = 1e-5)", ylabel="accuracy, %", title=title)
    figure.legend(loc="outside right upper", fontsize="small")
    figure.savefig(file, dpi=150)


def secure(_data: str, _split: str, _out: Path, smoke: bool) -> Iterator[str]:
    """Seconds and bytes of the four exchanges in one process, with one client that leaves before it sends."""
    yield "| clients | parameters | seconds a client | seconds on the server | bytes up a client | plain bytes up |"
    yield "|---:|---:|---:|---:|---:|---:|"
    for clients in (3, 20):
        for parameters in (1000,) if smoke else (10_000, 1_000_000, 11_200_000):
            at_clients, at_server, up = four_exchanges(clients, parameters)
            yield f"| {clients} | {parameters:,} | {at_clients:.3f} | {at_server:.3f} | {up:,} | {4 * parameters:,} |"


def four_exchanges(clients: int, parameters: int) -> tuple[float, float, int]:
    """Seconds of one client, seconds of the server, and the bytes that a client sends."""
    session = Session(session_of("benchmark", clients, parameters), ((parameters, 32),))
    server, members = SecureServer(session, range(clients)), [SecureClient(n, session) for n in range(clients)]
    vector = [np.arange(parameters) % 1000 - 500]
    spent, sent, began = [0.0] * clients, [0] * clients, time.perf_counter()

    def ask(number: int, what: str, *given: Any) -> bytes:
        at = time.perf_counter()
        answer: bytes = getattr(members[number], what)(*given)
        spent[number] += time.perf_counter() - at
        sent[number] += len(answer)
        return answer

    for n in range(clients):
        server.add_keys(n, ask(n, "keys"))
    for n, each in server.roster().items():
        server.add_shares(n, ask(n, "shares", each))
    for n, each in server.inboxes().items():
        if n:  # client 0 leaves
            server.add_masked(n, ask(n, "masked", each, vector))
    for n, each in server.survivors().items():
        server.add_reveal(n, ask(n, "reveal", each))
    (total,) = server.sums()
    assert (total == (clients - 1) * vector[0]).all()
    return mean(spent[1:]), time.perf_counter() - began - sum(spent), max(sent)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "benchmarks.trust", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    tables: dict[str, Callable[..., Iterator[str]]] = {
        "attacks": attacks,
        "cuts": cuts,
        "recovery": recovery,
        "privacy": privacy,
        "secure": secure,
    }
    parser.add_argument("table", choices=tables)
    parser.add_argument("data", nargs="?", default="digits", choices=list(ATTACKED))
    parser.add_argument("--split", default="iid", help="who holds what")
    parser.add_argument("--methods", default=",".join(METHODS), help="of the table of attacks")
    parser.add_argument("--out", type=Path, default=Path("runs/trust.jsonl"), help="where cells are kept")
    parser.add_argument("--smoke", action="store_true", help="tiny, to see that it runs")
    options = parser.parse_args(arguments)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    about = (options.data, options.split, options.out, options.smoke)
    for line in (
        attacks(*about, options.methods.split(",")) if options.table == "attacks" else tables[options.table](*about)
    ):
        print(line, flush=True)


if __name__ == "__main__":
    main()
