"""The first screen of a report: what is shown, with how many seeds, and nothing that is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import quantities
from .lines import Line, Setting
from .quantities import Quantity
from .tables import columns

ONE_SEED = "one seed: no claim"
NO_PAIRS = "fewer than two seeds in common: no claim"


@dataclass(frozen=True)
class Card:
    """One number worth reading first: whose it is, and what may be said of it."""

    question: str
    answer: str
    who: str
    note: str
    define: str


@dataclass(frozen=True)
class Headline:
    """One sentence, what stands behind it, and the cards below it."""

    sentence: str
    detail: str = ""
    """Interval, test and seeds of what the sentence says."""
    cards: tuple[Card, ...] = ()
    cost: str = ""
    """What a round of the first method moves beside one of FedAvg: this depends on no seed and no clock."""


def headline(setting: Setting) -> Headline:
    """What a colleague should take away from this setting."""
    lines = [line for line in setting.lines if any(run.scores for run in line.ran)]
    if not lines:
        return Headline("These runs were not evaluated: their data has no test set.")
    over = [line for line in lines if line.complete]
    going = any(run.status == "unfinished" for run in setting.runs)
    if not over or (going and len(over) < 2):
        return Headline(_no_claim_yet(setting))
    best, rounds, moved = (make(setting, over) for make in (quantities.score, quantities.rounds, quantities.moved))
    assert best is not None  # a line that was scored and has ended has a best score
    order = [each for each in (rounds, best) if each is not None]
    main = next((each for each in order if each.ranking.behind), order[0])  # what shows a difference, if anything does
    sentence, detail = (_alone(setting, over[0], best), "") if len(over) == 1 else _sentence(setting, main)
    if main is not order[0] and order[0].ranking.seeds > 1:  # both were looked at, so both are told
        sentence = f"{_none_shown(order[0])}; {sentence}"
    if rounds is None and len(over) > 1:
        sentence += f" {_reached(setting)}"
    prefix = (
        ("Of the methods that have finished: " if main.ranking.seeds > 1 else "Not all runs have finished. ")
        if going
        else ""
    )
    cards = tuple(_card(setting, each) for each in (best, rounds, moved) if each is not None)
    return Headline(prefix + sentence, detail, cards, _round_cost(setting, main.ranking.first))


def _reached(setting: Setting) -> str:
    """How many runs get to the target, where no method does so with all its seeds."""
    found = [run.reach(setting.target) is not None for run in setting.runs if run.points]
    return (
        f"{sum(found)} of {len(found)} runs reach {setting.goal}." if any(found) else f"No run reaches {setting.goal}."
    )


def _no_claim_yet(setting: Setting) -> str:
    runs = [run for run in setting.runs if run.status != "not run"]
    going = [run for run in runs if run.status == "unfinished"]
    if not going:
        return "No claim: every method has a run that diverged."
    done = sum(run.ended for run in runs)
    last = min(going, key=lambda run: run.points[-1].round / run.config.rounds)
    where = f"{last.points[-1].round} of {last.config.rounds} rounds"
    return f"No claim yet: {done} of {len(runs)} runs finished; the one furthest back has run {where}."


def _sentence(setting: Setting, what: Quantity) -> tuple[str, str]:
    """One is ahead, some are level, or no difference is shown; and what stands behind that."""
    ranking, first = what.ranking, what.ranking.first
    if ranking.seeds < 2:
        return _seen(setting, what), ""
    out = f" Not judged, with fewer than two seeds in common: {_names(ranking.apart)}." if ranking.apart else ""
    if not ranking.behind:
        return f"{_none_shown(what)}.{out}", ""
    by, test = what.against(setting.baseline(first))
    level = [line for line in ranking.level if not what.short(line)]
    if short := [f"{line.label}{what.short(line)}" for line in ranking.level if what.short(line)]:
        out = f" No difference is shown from {'; '.join(short)}.{out}"
    if not level:
        return f"{first.label} {what.ahead[0]}: {what.show(first)}, {by}.{out}", f"{test[0].upper()}{test[1:]}."
    names, seeds = _names([first, *level]), f"these {ranking.seeds} seeds"
    sentence = f"{names} {what.ahead[1]}; no difference between them is shown with {seeds}.{out}"
    return sentence, f"{first.label}: {what.show(first)}, {by} ({test})."


def _none_shown(what: Quantity) -> str:
    return f"No difference in {what.noun} is shown with these {what.ranking.seeds} seeds"


def _seen(setting: Setting, what: Quantity) -> str:
    """What was seen, without a word on which method is better."""
    tied = what.tied()
    base = setting.baseline(tied[0])
    others = [*tied[:4], *([base] if base is not None and all(base is not each for each in tied) else [])]
    why = _why(what)
    apart = ("; ", ": ") if any("," in each.label for each in others) else (", ", " ")
    shown = apart[0].join(f"{each.label}{apart[1]}{what.show(each)}" for each in others)
    return f"{why[0].upper()}{why[1:]}. {what.question}: {shown}."


def _why(what: Quantity) -> str:
    """Why nothing is claimed: the first was run once, or its seeds are not those of the others."""
    return ONE_SEED if len(what.ranking.first.runs) < 2 else NO_PAIRS


def _alone(setting: Setting, line: Line, best: Quantity) -> str:
    seeds = f"{len(line.runs)} seeds" if len(line.runs) > 1 else "one seed"
    rounds = columns.rounds_to(setting.target).make(line).text
    return f"{line.label}: {best.noun} {best.show(line)}, rounds to {setting.goal}: {rounds} ({seeds})."


def _card(setting: Setting, what: Quantity) -> Card:
    ranking, tied = what.ranking, what.tied()
    if ranking.seeds < 2:
        note = _why(what)
    elif ranking.level:
        rest = [line for line in ranking.level if all(line is not each for each in tied)]
        note = f"no difference{f' from {_names(rest)}' if rest else ''} shown with these {ranking.seeds} seeds"
    else:
        by, test = what.against(setting.baseline(ranking.first)) if ranking.behind else ("", f"{ranking.seeds} seeds")
        note = f"{by} ({test})" if by else test
    return Card(what.question, what.show(ranking.first), _names(tied), note, what.column.define)


def _round_cost(setting: Setting, first: Line) -> str:
    base = setting.baseline(first)
    if base is None or base is first:
        return ""
    times = f"{_per_client(first) / _per_client(base):.1f}"
    if times == "1.0":
        return f"A round of {first.label} moves as many bytes as one of {base.label}."
    return f"A round of {first.label} moves {times}× the bytes of {base.label}."


def _per_client(line: Line) -> float:
    """Bytes for each client that took part: cohorts differ in size."""
    records = [record for run in line.runs for record in run.records]
    return sum(r.bytes_up + r.bytes_down for r in records) / max(1, sum(len(r.participants) for r in records))


def _names(lines: Sequence[Line]) -> str:
    labels = [line.label for line in lines]
    if len(labels) > 4:
        return f"{len(labels)} methods"
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"
