"""The first screen of a report: which method, how much better, at what cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

from .settings import Line, Setting
from .units import amount, clock, percent


@dataclass(frozen=True)
class Card:
    """One number worth reading first."""

    question: str
    answer: str
    who: str
    note: str = ""


@dataclass(frozen=True)
class Headline:
    """One sentence, and the cards below it."""

    sentence: str
    cards: tuple[Card, ...]
    cost: str = ""
    """What a round of the best method costs beside one of FedAvg."""


def headline(setting: Setting) -> Headline:
    """What a colleague should take away from this setting."""
    lines = [line for line in setting.lines if line.best()]
    if not lines:
        return Headline("These runs were not evaluated: their data has no test set.", ())
    reached = [line for line in lines if line.mean_cost_to(setting.target) is not None]
    cards = [_accuracy(setting, lines), *(_costs(setting, reached) if reached else [])]
    best = _winner(setting, lines, reached)
    return Headline(_sentence(setting, lines, reached), tuple(cards), _round_cost(setting, best))


def _winner(setting: Setting, lines: Sequence[Line], reached: Sequence[Line]) -> Line:
    """The first to reach the target, or the most accurate where none does."""
    if not reached:
        return max(lines, key=lambda line: mean(line.best()))
    return min(reached, key=lambda line: (_cost(line, setting, 0), -mean(line.last() or [0])))


def _round_cost(setting: Setting, winner: Line) -> str:
    base = setting.baseline
    if base is None or base is winner:
        return ""
    (moved, seconds), (base_moved, base_seconds) = winner.round_cost(), base.round_cost()
    spent = f" and takes {seconds / base_seconds:.1f}× its time" if base_seconds else ""
    return f"A round of {winner.label} moves {moved / base_moved:.1f}× the bytes of {base.label}{spent}."


def _sentence(setting: Setting, lines: Sequence[Line], reached: Sequence[Line]) -> str:
    goal, budget = percent(setting.target, 2), max(line.budget for line in lines)
    most = max(lines, key=lambda line: mean(line.best()))
    if len(lines) == 1:
        cost = lines[0].mean_cost_to(setting.target)
        end = f"does not reach {goal} in {budget} rounds" if cost is None else f"reaches {goal} in {cost[0]:.3g} rounds"
        return f"{lines[0].label} {end}; its best accuracy is {percent(mean(lines[0].best()))}."
    if not reached:
        return f"{most.label} is the most accurate with {percent(mean(most.best()))}; no method reaches {goal}."
    first = _winner(setting, lines, reached)
    rounds = _cost(first, setting, 0)
    return f"{first.label} reaches {goal} first: in {rounds:.3g} rounds{_against(setting, first, reached, 0)}."


def _accuracy(setting: Setting, lines: Sequence[Line]) -> Card:
    most = max(lines, key=lambda line: mean(line.best()))
    base = setting.baseline
    note = ""
    if base is not None and base is not most and base.best():
        note = f"{100 * (mean(most.best()) - mean(base.best())):+.2f} points over {base.label}"
    return Card("Best accuracy", percent(mean(most.best())), most.label, note)


def _costs(setting: Setting, reached: Sequence[Line]) -> list[Card]:
    goal = percent(setting.target, 2)
    shown: tuple[tuple[str, Callable[[float], str]], ...] = (
        (f"Rounds to {goal}", lambda value: f"{value:.3g}"),
        (f"Moved to {goal}", amount),
        (f"Time to {goal}", clock),
    )
    cards = []
    for i, (question, show) in enumerate(shown):
        least = min(reached, key=lambda line: _cost(line, setting, i))
        note = _against(setting, least, reached, i).lstrip(", ")
        cards.append(Card(question, show(_cost(least, setting, i)), least.label, note))
    return cards


def _against(setting: Setting, winner: Line, reached: Sequence[Line], which: int) -> str:
    """The ratio to plain FedAvg, or to the next best where FedAvg is the winner or was not run."""
    mine, unit = _cost(winner, setting, which), ("rounds", "bytes", "seconds")[which]
    base = setting.baseline
    if base is not None and base is not winner:
        cost = base.mean_cost_to(setting.target)
        if cost is None:
            return f", {base.label} not in {base.budget}" if which == 0 else f", {base.label} does not get there"
        return f", {cost[which] / mine:.2g}× fewer {unit} than {base.label}" if mine else ""
    others = [line for line in reached if line is not winner]
    if not others or not mine:
        return ""
    second = min(others, key=lambda line: _cost(line, setting, which))
    return f", {_cost(second, setting, which) / mine:.2g}× fewer {unit} than {second.label}"


def _cost(line: Line, setting: Setting, which: int) -> float:
    cost = line.mean_cost_to(setting.target)
    assert cost is not None  # only lines that reached the target are asked
    return cost[which]
