"""Who is a member, with how many samples, and what follows from that: ω_i, K_i, and who is asked in a round."""

from __future__ import annotations

import time
from logging import INFO, WARNING, getLogger

import numpy as np
import torch
from flwr.serverapp import Grid
from torch import nn

from ...algorithms import Algorithm
from ...data.clients import sample_weights
from ...engine.cohorts import make_cohorts
from ...engine.local.batches import steps_column
from ...engine.membership import resized, restarted, sizes_of
from ...errors import RunError, check
from ...options import Sampling
from ...types import Local, Weights
from ..packets import Packet
from ..samples import agree
from ..settings import Settings
from .answers import Introduction, introduction
from .asking import Correspondence, RefusedError
from .checkpoint import Progress
from .guarding import ServerGuard
from .members import SETTLE_SECONDS, Members, bindings

MOST_CLIENTS = 100_000
log = getLogger("flwr").log


class Roster:
    """The members of an experiment, whether they are connected or not."""

    def __init__(
        self,
        grid: Grid,
        settings: Settings,
        algorithm: Algorithm,
        module: nn.Module,
        progress: Progress,
        guard: ServerGuard,
        questions: Correspondence,
    ) -> None:
        self.settings, self.algorithm, self.module = settings, algorithm, module
        self.progress, self.guard, self.questions = progress, guard, questions
        self.members = Members(grid, self.introduce, settings.wait, bindings(settings.nodes))
        self.parameters = progress.server.model.numel()
        self.introduced: dict[int, Introduction] = {}
        self._begun = progress.round > 0

    def open(self) -> None:
        """Wait for the members, and at the beginning of an experiment have them agree on a scale and on classes."""
        progress, clients = self.progress, self.settings.clients
        if progress.round:
            self.members.gather(sorted(progress.samples), 1, min(SETTLE_SECONDS, self.settings.wait))
            return
        self.members.gather(range(clients), clients)  # everyone is needed once; later rounds continue without some
        first = {client: self.introduced[client] for client in range(clients)}
        progress.agreed = agree((each.moments for each in first.values()), (each.names for each in first.values()))
        progress.samples = {client: each.samples for client, each in first.items()}
        progress.score = first[0].score
        for client, each in first.items():
            check(each.score == progress.score, self._other_score(client, each))
        self._begun = True

    def introduce(self, client: int, answer: Packet) -> None:
        """Take note of a client that says who it is; whoever is no member yet joins with the next round."""
        if client >= MOST_CLIENTS:
            raise RefusedError(f"it says that it is client {client}, but numbers go up to {MOST_CLIENTS - 1}")
        if self.settings.simulation and answer.config.get("simulated") is not True:
            raise RunError(
                "this run was to be a simulation (simulation=true), but a real site is connected, and nothing was "
                "trained: name a connection to a simulation, flwr run APP NAME"
            )
        found = introduction(client, answer, self.parameters, self.settings.most_samples)
        if self._begun:
            agreed, columns = self.progress.agreed, 0 if found.moments is None else found.moments.mean.size
            if found.score != self.progress.score:
                raise RefusedError(self._other_score(client, found))
            if columns != len(agreed.mean) or not set(found.names) <= set(agreed.classes):
                raise RefusedError(f"client {client} has other columns or classes than the members agreed on")
            if self.guard and self.progress.samples.get(client) != found.samples:
                raise RefusedError(
                    f"client {client} joins or has other samples than before, but with robust, privacy or secure the "
                    "members stay those that the experiment began with"
                )
        self.introduced[client] = found

    def _other_score(self, client: int, found: Introduction) -> str:
        return f"client {client} judges models by {found.score.name}, and the others by {self.progress.score.name}"

    def note_samples(self, client: int, answer: Packet | RefusedError) -> None:
        """A client that has read its data again says how many samples it has: they count from the next round on."""
        said = None if isinstance(answer, RefusedError) else answer.config.get("samples")
        if isinstance(said, int) and not isinstance(said, bool) and 1 <= said <= self.settings.most_samples:
            self.introduced[client] = self.introduced[client]._replace(samples=said)

    def update(self) -> None:
        """Let in who is new, take note of changed sample counts, and drop who has been away for too long.

        Not where updates are guarded: thresholds and noise are planned for those that the experiment began with.
        """
        self.members.refresh()
        if not self.guard:
            self._drop_the_absent()
            self._count_the_present()
        self._weigh()

    def _drop_the_absent(self) -> None:
        progress, now = self.progress, time.time()
        for client in progress.samples:
            if client in self.members.nodes:
                progress.away.pop(client, None)
            else:
                progress.away.setdefault(client, now)
        gone = {client for client, since in progress.away.items() if now - since > self.settings.leave_after}
        if gone and len(gone) < len(progress.samples):
            for client in sorted(gone):
                log(WARNING, "feddc: client %s was away for too long and is no member any more", client)
                del progress.samples[client], progress.away[client]
            # Nobody knows what those that left had contributed to the server's means: all begin again from zero.
            progress.server, progress.seen = restarted(self.algorithm, progress.server), {}
            self.questions.forget_all()

    def _count_the_present(self) -> None:
        progress, samples = self.progress, dict(self.progress.samples)
        for client in self.members.nodes:
            new = self.introduced[client].samples
            if client not in samples:
                log(INFO, "feddc: client %s joins with %s samples", client, new)
            elif samples[client] != new:
                log(INFO, "feddc: client %s has %s samples now, and had %s", client, new, samples[client])
            samples[client] = new
        if samples != progress.samples:
            before, after = sizes_of(progress.samples), sizes_of(samples)
            progress.server, progress.samples = resized(self.algorithm, progress.server, before, after), samples

    def _weigh(self) -> None:
        """ω_i and K_i of every member, and the nominal number of steps, from the samples that they have now."""
        clients, training = sorted(self.progress.samples), self.settings.training
        sizes = np.array([self.progress.samples[client] for client in clients], dtype=np.int64)
        self.nominal = training.nominal_steps(sizes)
        fixed = self.nominal if self.algorithm.fixed_steps else None
        self.weights, self.steps = torch.ones(clients[-1] + 1, 1), torch.ones(clients[-1] + 1, 1)
        self.steps[clients] = steps_column(sizes, training, self.module, fixed)
        if not self.guard.equal:
            self.weights[clients] = sample_weights(sizes)

    def everyone(self, round: int) -> Weights:
        """The weights that the method names, of all clients."""
        plan = vars(self.settings.training.schedule(round, self.nominal))
        return self.algorithm.weigh(Local(steps=self.steps, **plan), self.weights)

    def cohort(self, round: int) -> list[int]:
        """The clients to ask in this round: those drawn that are connected and not at work on an earlier question."""
        settings, members = self.settings, sorted(self.progress.samples)
        size = settings.cohort_size and min(settings.cohort_size, len(members))
        cohorts = make_cohorts(len(members), settings.rounds, Sampling(settings.participation, size))
        drawn = [members[place] for place in cohorts.draw(settings.seed, round).tolist()]
        here = self.members.gather(drawn, min(settings.min_answers, len(drawn)))
        busy = {client: self.questions.busy(client, self.members.nodes[client]) for client in here}
        for client in drawn:
            if client not in here:
                log(WARNING, "feddc: round %s continues without client %s, which is not connected", round, client)
            elif busy[client] is not None:
                log(WARNING, "feddc: client %s is still at work on round %s", client, busy[client])
        return [client for client in here if busy[client] is None]
