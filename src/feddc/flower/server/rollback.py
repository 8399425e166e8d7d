"""Rounds taken back, after an attack was noticed: the server goes back to a state that it kept, the sites to theirs.

Sites hold their own state, so it is only done when every site whose state would go back says that it has kept it.
"""

from __future__ import annotations

import time
from logging import WARNING, getLogger
from typing import TYPE_CHECKING

from flwr.app import MessageType

from ...errors import RunError
from ..packets import Packet
from .answers import check_for
from .asking import RefusedError
from .checkpoint import Progress

if TYPE_CHECKING:
    from .coordinator import Coordinator

log = getLogger("flwr").log


def roll_back(run: Coordinator) -> None:
    """Put server and clients as many rounds back as the settings say; RunError, and nothing is changed, if one cannot.

    A client's state goes back with the next question to it, which says the round whose state counts.
    """
    progress, rounds = run.progress, run.settings.rollback
    last, target = progress.round, progress.round - rounds
    if target < 1:
        raise RunError(f"{last} rounds were run, so {rounds} cannot be taken back: name another experiment to begin")
    earlier = run.checkpoint.earlier(progress, target, run.changing)
    if run.shape.client:
        check_states(run, earlier)
    file = run.checkpoint.undo(progress, earlier)
    run.directory.go_back(run.judged_module(), target, progress.agreed)
    log(WARNING, "feddc: took back rounds %s to %s; their records are in %s", target + 1, last, file)


def check_states(run: Coordinator, earlier: Progress) -> None:
    """Refuse to go back where a client has not kept its state, or cannot be asked."""
    missing, now = {client: round for client, round in earlier.seen.items() if round}, run.progress.round
    run.members.gather(sorted(missing), len(missing))
    for client in missing:
        question = Packet({"ask": "states", "experiment": earlier.id, "round": now})
        run.exchange.ask(client, question, now, MessageType.QUERY)
    within = time.monotonic() + run.settings.answer_within
    for client, _, answer, _ in run.questions.arrivals(now, within, MessageType.QUERY):
        try:
            if isinstance(answer, RefusedError):
                raise answer
            check_for(answer, earlier.id, now, client)
        except RefusedError as reason:
            log(WARNING, "feddc: client %s does not say which states it has kept: %s", client, reason)
            continue
        kept = answer.config.get("states")
        if isinstance(kept, list) and missing.get(client) in kept:
            del missing[client]
    if missing:
        client, round = min(missing.items())
        raise RunError(
            f"client {client} has not kept its state of round {round}, so rounds after {earlier.round} cannot be taken "
            "back; nothing was changed"
        )
