"""The questions of a round to its cohort, and the answers that the server uses."""

from __future__ import annotations

import time
from collections.abc import Mapping
from logging import WARNING, getLogger
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from flwr.app import MessageType

from ...algorithms import Algorithm
from ...engine.compress import compression_of
from ...engine.records import Rejected
from ...engine.rounds import Handling, Sums, diverged
from ...errors import RunError
from ...models import Buffers
from ...trust.secure import Secure
from ...types import Cohort, Local, Means
from ..packets import Packet
from ..settings import Settings, method_config, training_config
from ..states import Templates, as_rows, join_buffers, pack_sent
from .answers import Answers
from .asking import Correspondence, RefusedError, SilentError
from .checkpoint import Progress
from .guarding import ServerGuard
from .roster import Roster

log = getLogger("flwr").log


class Taken(NamedTuple):
    """The answers of a round: whose are used, and what is known of them."""

    used: list[int]
    asked: list[int]
    seconds: dict[int, float]
    dropped: list[int]
    rejected: list[Rejected]
    figures: dict[int, dict[str, float]]
    bytes_up: int
    """Of one client."""
    bytes_down: int
    """To one client."""


class Exchange:
    """Asks the clients of a round to train, and moves the server on by what they answer."""

    def __init__(
        self,
        settings: Settings,
        algorithm: Algorithm,
        shape: Templates,
        progress: Progress,
        roster: Roster,
        guard: ServerGuard,
        questions: Correspondence,
        folder: Path,
    ) -> None:
        """``folder`` is where the answers of the round under way are kept."""
        self.settings, self.algorithm, self.shape, self.progress = settings, algorithm, shape, progress
        self.roster, self.guard, self.questions, self.folder = roster, guard, questions, folder
        self.handling = Handling(compression=compression_of(settings, algorithm))

    @property
    def least(self) -> int:
        """How many answers a round needs."""
        return max(self.settings.min_answers, self.guard.least)

    def run(self, round: int, cohort: list[int]) -> Taken:
        """One round, to the new state of the server."""
        progress = self.progress
        broadcast = self.algorithm.broadcast(progress.server)
        sent, packed = pack_sent(broadcast, self.handling.compression, round)
        arrays = join_buffers(packed, progress.buffers) | progress.agreed.arrays()
        questions = {
            client: Packet(self.question(round, client), arrays | self.guard.decided(client, progress))
            for client in cohort
        }
        if (secure := self.guard.secure) is not None:
            return self._masked(round, questions, secure, sent)
        return self._plain(round, questions, sent)

    def question(self, round: int, client: int) -> dict[str, Any]:
        """What a client is told beside the model."""
        return {
            "ask": "train",
            "experiment": self.progress.id,
            "round": round,
            "seen": self.progress.seen.get(client, 0),
            "oldest": self.progress.oldest(client),
            "weight": float(self.roster.weights[client]),
            "steps": self.roster.nominal,
            "seed": self.settings.seed,
            "compress": self.settings.compress,
            "classes": list(self.progress.agreed.classes),
            **method_config(self.algorithm),
            **training_config(self.settings.training),
            **self.guard.asked(client, self.progress),
        }

    def ask(self, client: int, packet: Packet, round: int, kind: str = MessageType.TRAIN) -> bool:
        """Send a question; whether it could be sent."""
        node = self.roster.members.nodes[client]
        sent = self.questions.ask(client, node, packet, round, self.settings.answer_within, kind)
        if not sent:
            log(WARNING, "feddc: the question to client %s in round %s could not be sent", client, round)
        return sent

    def _plain(self, round: int, questions: Mapping[int, Packet], sent: Any) -> Taken:
        """A round in which the server reads every answer."""
        progress, least = self.progress, self.least
        asked = [client for client, packet in questions.items() if self.ask(client, packet, round)]
        down = self._bytes(sent)
        with Answers(self.folder, progress.id, self.shape, self.handling.compression) as answers:
            seconds, dropped, rejected = self._collect(round, asked, answers)
            used = sorted(answers.updates)
            if len(used) < min(least, len(questions)):
                raise RunError(
                    f"round {round} has {len(used)} answers that can be used, but min-answers is "
                    f"{least}; the log says why, and another run tries again"
                )
            self._add_up(round, answers, used, sent)
            progress.seen |= {client: answers.updates[client].round for client in used}
            progress.filters = {of: each for of, each in progress.filters.items() if of in progress.seen.values()}
            figures = {client: answers.updates[client].figures for client in used}
        return Taken(used, asked, seconds, dropped, rejected, figures, self._bytes(self.shape.upload), down)

    def _bytes(self, state: Any) -> int:
        """What these vectors and the model's buffers take when they travel."""
        return self.handling.nbytes(state) + self.progress.buffers.nbytes

    def _masked(self, round: int, questions: Mapping[int, Packet], secure: Secure, sent: Any) -> Taken:
        """A round of secure aggregation."""
        from .masking import MaskedRound  # needs cryptography, only where it is used

        progress, cohort = self.progress, list(questions)
        about = secure, progress.id, round, self.roster.everyone(round), progress.server.model
        found = MaskedRound(*about, self.ask, self.questions.arrivals).run(questions, self.settings.answer_within)
        used = sorted(found.used)
        if len(used) < self.least:
            raise RunError(
                f"round {round} has {len(used)} answers, but min-answers is {self.least}; another run tries again"
            )
        down = self._bytes(sent)
        self._move(round, found.means, progress.buffers, len(used), len(used), sent)
        progress.seen |= dict.fromkeys(used, round)
        missing = [client for client in cohort if client not in used]
        return Taken(used, cohort, found.seconds, missing, [], {}, found.bytes_up, down)

    def _collect(
        self, round: int, asked: list[int], answers: Answers
    ) -> tuple[dict[int, float], list[int], list[Rejected]]:
        """Take answers until all are there or the round's time is over: seconds of each, who is silent, who refused."""
        seconds: dict[int, float] = {}
        silent, rejected = set(asked), dict[int, str]()
        for client, of, answer, took in self.questions.arrivals(round, time.monotonic() + self.settings.answer_within):
            try:
                if of != round and self.settings.late == "refuse":
                    raise SilentError(f"it came too late, in round {round}")
                self.roster.note_samples(client, answer)
                update = answers.take(client, of, answer, self.progress.samples[client])
            except RefusedError as reason:
                log(WARNING, "feddc: the answer of client %s in round %s is not used: %s", client, of, reason)
                if not isinstance(reason, SilentError):
                    rejected[client] = str(reason)
                    silent.discard(client)
                continue
            if update.lost:
                log(WARNING, "feddc: client %s lost its state and began again from zero", client)
            seconds[client] = took
            silent.discard(client)
        for client in sorted(silent):
            log(WARNING, "feddc: client %s has not answered in round %s", client, round)
        for client, sentence in answers.outliers(self.progress.norm).items():
            log(WARNING, "feddc: the answer of client %s in round %s is not used: %s", client, round, sentence)
            rejected[client] = sentence
            del answers.updates[client]
        return seconds, sorted(silent), [Rejected(*each) for each in sorted(rejected.items())]

    def _add_up(self, round: int, answers: Answers, used: list[int], sent: Any) -> None:
        """Move the server on by the mean of these clients' answers."""
        progress, roster, sums = self.progress, self.roster, Sums()
        for client, (upload, own) in zip(used, self.guard.used(round, answers, used, progress), strict=True):
            plan = vars(self.settings.training.schedule(answers.updates[client].round, roster.nominal))
            weight, local = roster.weights[[client]], Local(steps=roster.steps[[client]], **plan)
            sums.add(as_rows(upload), as_rows(own), weight, self.algorithm.weigh(local, weight))
        means, buffers = sums.means(progress.buffers)
        self._move(round, means, buffers, len(used), sums.size, sent)
        progress.norm = float(np.median([answers.updates[client].norm for client in used]))

    def _move(self, round: int, means: Means, buffers: Buffers, number: float, size: int, sent: Any) -> None:
        """Move the server on by these means of ``size`` clients, which had received ``sent``."""
        progress, plan = self.progress, vars(self.settings.training.schedule(round, self.roster.nominal))
        means, number = self.guard.released(means, number, size, self.roster.everyone(round), round)
        present = Cohort(participation=number / len(progress.samples), size=int(number), sent=sent, **plan)
        server = self.algorithm.aggregate(progress.server, means, present)
        if not torch.isfinite(server.model).all():
            raise diverged(self.algorithm, round)
        progress.server, progress.buffers, progress.round = server, buffers, round
