"""How good the global model is: on the server's test set, and on what every site holds out."""

from __future__ import annotations

import time
from logging import WARNING, getLogger
from typing import Any

from flwr.app import MessageType
from torch import nn

from ...algorithms import Algorithm, evaluated
from ...engine.local.kernel import Start
from ...errors import check
from ...tasks import score_of
from ..judging import Judge, Measures
from ..packets import Packet
from ..samples import as_samples
from ..settings import Settings
from ..states import ModelOnly, join_buffers, to_arrays
from .answers import measures
from .asking import RefusedError
from .checkpoint import Progress
from .exchange import Exchange

log = getLogger("flwr").log


class Judges:
    """Those who judge the model after a round."""

    def __init__(self, settings: Settings, algorithm: Algorithm, progress: Progress, exchange: Exchange) -> None:
        self.settings, self.algorithm, self.progress, self.exchange = settings, algorithm, progress, exchange
        self._own: Judge | None = None

    def begin(self, module: nn.Module, test: Any) -> None:
        """Prepare the server's test set, if there is one, as the sites agreed."""
        if test is not None:
            own, known = as_samples(test).tested(self.progress.agreed), self.progress.score
            score = score_of(own.task)
            check(
                score == known,
                f"the server's test set is judged by its {score.name}, but the sites' models by their {known.name}: "
                "have test() return feddc.flower.Samples with the task of the sites",
            )
            self._own = Judge(module, own)

    def judged(self) -> tuple[Measures, dict[int, Measures]]:
        """What the server and what every connected site measured, where it is due."""
        progress, settings = self.progress, self.settings
        if progress.round % settings.evaluate_every and progress.round != settings.rounds:
            return {}, {}
        sites = self._sites() if settings.test_sites else {}
        start = Start(progress.round, evaluated(self.algorithm, progress.server), progress.buffers)
        own = {} if self._own is None else self._own.measures(start)
        return own or mean_measures(sites), sites

    def _sites(self) -> dict[int, Measures]:
        progress, questions, roster = self.progress, self.exchange.questions, self.exchange.roster
        config = {"ask": "evaluate", "experiment": progress.id, "round": progress.round}
        config |= {"classes": list(progress.agreed.classes)}
        judged = ModelOnly(evaluated(self.algorithm, progress.server))
        arrays = join_buffers(to_arrays(judged), progress.buffers) | progress.agreed.arrays()
        for client, node in roster.members.nodes.items():
            if roster.introduced[client].held_out and questions.busy(client, node) is None:
                self.exchange.ask(client, Packet(config, arrays), progress.round, MessageType.EVALUATE)
        within, found = time.monotonic() + self.settings.answer_within, {}
        for client, of, answer, _ in questions.arrivals(progress.round, within, MessageType.EVALUATE):
            try:
                found[client] = measures(client, of, progress.id, answer)
            except RefusedError as reason:
                log(WARNING, "feddc: client %s has not judged the model of round %s: %s", client, of, reason)
        return found


def mean_measures(sites: dict[int, Measures]) -> Measures:
    """The mean over the sites, weighted by what they hold out: what a server without a test set knows of its model.

    For a measure that is no mean over samples, such as AUROC, it is the mean of the sites' own, not that of all samples
    together. A site on whose samples a measure is not defined does not count in it.
    """
    judged = [each for each in sites.values() if each.get("samples")]
    found = {}
    for name in sorted({name for each in judged for name in each} - {"samples"}):
        known = [(each[name], each["samples"]) for each in judged if name in each]
        found[name] = sum(value * n for value, n in known) / sum(n for _, n in known)
    return found
