"""Which method serves each of four hospitals best? Settings are chosen on validation patients, never on test patients.

    feddc data fetch heart-disease
    python examples/hospitals.py

1. A fifth of every hospital's training patients is set aside. Each method is tried with each of its settings over some
   seeds; the setting with the lowest mean loss on those patients is taken.
2. The methods are trained again on all training patients, with other seeds, and judged on every hospital's own test
   patients: the global model, and each hospital's own model after one more round of local training.
3. A method is called better or worse than FedAvg where a paired t-test over seeds, with Holm's correction for all
   comparisons, shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from statistics import mean
from typing import Any

import feddc
from feddc.data.natural import HOSPITALS
from feddc.paper.flamby import MAJORITY
from feddc.report.numbers.stats import correct, paired, spread

RATES = (0.03, 0.1, 0.3)
SETTINGS: dict[str, Sequence[Any]] = {
    "FedAvg": [feddc.FedAvg()],
    "FedProx": [feddc.FedProx(mu=mu) for mu in (0.1, 1.0)],
    "SCAFFOLD": [feddc.Scaffold(form="weighted")],
    "FedDyn": [feddc.FedDyn(alpha=alpha) for alpha in (0.01, 0.1)],
    "FedDC": [feddc.FedDC(alpha=alpha) for alpha in (0.01, 0.1)],
}


def train(method: Any, rate: float, federation: feddc.Federation, seed: int, rounds: int, **options: Any) -> Any:
    """The last record of one run."""
    training = feddc.LocalTraining(steps=10, batch_size=32, lr=rate, lr_decay=1.0, weight_decay=0.0, clip_norm=None)
    model = feddc.make_model("linear:zeros=false", federation.shape, 1, seed)
    options |= {"rounds": rounds, "evaluate_every": rounds, "executor": "in-process", "seed": seed}
    return feddc.train(method, model, federation, training=training, **options).records[-1]


def choose(federation: feddc.Federation, seeds: Sequence[int], rounds: int) -> dict[str, tuple[Any, float]]:
    """For each method the setting with the lowest mean loss on validation patients."""
    divided = {seed: federation.hold_out(validation=0.2, seed=seed) for seed in seeds}
    chosen = {}
    for name, methods in SETTINGS.items():
        losses = {
            (method, rate): mean(
                train(method, rate, divided[seed], seed, rounds, evaluate="server").validation["loss"] for seed in seeds
            )
            for method, rate in product(methods, RATES)
        }
        chosen[name] = min(losses, key=lambda setting: losses[setting])
        print(f"{name}: lr {chosen[name][1]:g}, {chosen[name][0]}, validation loss {losses[chosen[name]]:.4f}")
    return chosen


def table(title: str, scores: dict[str, list[list[float]]]) -> None:
    """Mean ± deviation over seeds in each hospital, and which differences from FedAvg are shown."""
    print(f"\n{title}\n\n| | {' | '.join(HOSPITALS)} |\n|---|{'---|' * len(HOSPITALS)}")
    seeds = range(len(scores["FedAvg"]))
    for name, found in scores.items():
        print(f"| {name} | {' | '.join(spread([row[i] for row in found], 3) for i in range(len(HOSPITALS)))} |")
    compared = [
        (name, hospital, paired(*({seed: scores[each][seed][i] for seed in seeds} for each in (name, "FedAvg"))))
        for name in scores
        if name != "FedAvg"
        for i, hospital in enumerate(HOSPITALS)
    ]
    known = [(name, hospital, each) for name, hospital, each in compared if each is not None]
    shown = [
        f"{name} {'above' if result.difference > 0 else 'below'} FedAvg in {hospital} by {abs(result.difference):.3f}"
        for (name, hospital, _), result in zip(known, correct([each for *_, each in known]), strict=True)
        if result.significant
    ]
    print(f"\nshown: {'; '.join(shown) or 'no difference from FedAvg'}")


def main(rounds: int = 20, trials: int = 3, repeats: int = 5, data_dir: str | None = None) -> None:
    federation = feddc.load("heart-disease", data_dir=data_dir)
    chosen = choose(federation, range(trials), rounds)
    own: dict[str, list[list[float]]] = {name: [] for name in chosen}
    local: dict[str, list[list[float]]] = {name: [] for name in chosen}
    for name, (method, rate) in chosen.items():
        for seed in range(100, 100 + repeats):
            record = train(method, rate, federation, seed, rounds, evaluate="both", personal=True)
            own[name].append(list(record.clients.scores))
            local[name].append(list(record.personal.scores))
    table("accuracy of the global model on each hospital's test patients", own)
    table("accuracy of each hospital's own model, after a round of local training", local)
    print(f"\nmajority class: {', '.join(f'{each:.3f}' for each in MAJORITY[1:])}")


if __name__ == "__main__":
    main()
