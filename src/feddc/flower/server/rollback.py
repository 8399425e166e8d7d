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
    now, rounds = run.progress, run.settings.rollback
    target = now.round - rounds
    if target < 1:
        raise RunError(
            f"{now.round} rounds were run, so {rounds} cannot be taken back: to begin again, name another experiment"
        )
    before = run.checkpoint.load_kept(target, run.shape.server, run.shape.buffers, run.changing)
    if run.shape.client:
        check_states(run, before)
    before.undone = now.undone + rounds
    file = run.checkpoint.undo(before, now.round)
    run.progress = before
    run.directory.go_back(run.judged_module(), target, before.agreed)
    log(WARNING, "feddc: took back rounds %s to %s; their records are in %s", target + 1, now.round, file)


def check_states(run: Coordinator, before: Progress) -> None:
    """Refuse to go back where a client has not kept its state, or cannot be asked."""
    needed = {client: round for client, round in before.seen.items() if round}
    run.members.gather(sorted(needed), len(needed))
    now = run.progress.round
    for client in needed:
        run.ask(client, Packet({"ask": "states", "experiment": before.id, "round": now}), now, MessageType.QUERY)
    missing = dict(needed)
    for client, _, answer, _ in run.questions.arrivals(
        now, time.monotonic() + run.settings.answer_within, MessageType.QUERY
    ):
        try:
            if isinstance(answer, RefusedError):
                raise answer
            check_for(answer, before.id, now, client)
        except RefusedError as reason:
            log(WARNING, "feddc: client %s does not say which states it has kept: %s", client, reason)
            continue
        kept = answer.config.get("states")
        if isinstance(kept, list) and needed.get(client) in kept:
            missing.pop(client, None)
    if missing:
        client, round = min(missing.items())
        raise RunError(
            f"client {client} has not kept its state of round {round}, so rounds after {before.round} cannot be taken "
            "back; nothing was changed"
        )
