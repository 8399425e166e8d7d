"""Judging a model: on the server's test set, on a validation set, and on what every client holds out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..data import Federation
from ..errors import check
from ..models import Buffers, FlatModel
from ..options import Options
from ..tasks import score_of
from .evaluation import Evaluation, metrics_of, total
from .executors import Executor, chunk_size, one_thread, parts
from .executors.base import Correct, evaluate_block
from .local.kernel import Job, Start
from .records import ClientScores


class Judged(NamedTuple):
    """The part of a record that says how good the model is."""

    metrics: Mapping[str, float] = {}
    clients: ClientScores | None = None
    personal: ClientScores | None = None
    validation: Mapping[str, float] | None = None

    def others(self) -> dict[str, Any]:
        """All but the metrics, by the names that they have in a record."""
        return {"clients": self.clients, "personal": self.personal, "validation": self.validation}


def check_judges(federation: Federation, options: Options) -> None:
    """Refuse to evaluate where there is nothing to evaluate on."""
    wanted = options.personal or options.evaluate == "clients"
    good = not wanted or federation.held is not None
    name = "personal=True" if options.personal else "evaluate='clients'"
    check(good, f"{name} needs samples that clients hold out: federation.hold_out(0.2), or --holdout 0.2")


def judge(executor: Executor, federation: Federation, start: Start, where: str) -> Judged:
    """The global model on everything that there is and that is asked for, in one pass over the executor.

    Without a server's test set the metrics are those of all that clients hold out, taken together.
    """
    everyone = range(len(federation)) if federation.held is not None and where != "server" else range(0)
    test = federation.blocks("test") if where != "clients" else []
    aside = federation.blocks("validation")
    own = [federation.blocks("client", client) for client in everyone]
    found = executor.measure(start, [*test, *aside, *(block for blocks in own for block in blocks)])
    tested, found = found[: len(test)], found[len(test) :]
    validated, found = found[: len(aside)], found[len(aside) :]
    by_client = []
    for blocks in own:
        by_client.append(found[: len(blocks)])
        found = found[len(blocks) :]
    clients = [total(each) for each in by_client]
    pooled = [each for each in clients if each is not None]
    return Judged(
        metrics=_metrics(total(tested or pooled), federation) or {},
        clients=client_scores(clients, federation),
        validation=_metrics(total(validated), federation),
    )


def personal_scores(executor: Executor, job: Job, start: Start, correct: Correct) -> ClientScores | None:
    """The score of each client's own model, after local training from the present global one, on what it holds out."""
    model, federation = FlatModel(job.module), job.federation
    assert federation.held is not None
    everyone = [client for client, rows in enumerate(federation.held) if len(rows)]
    found: list[Evaluation | None] = [None] * len(federation)
    for chunk in parts(everyone, chunk_size(start.model.nbytes)):
        rows = iter(chunk)
        for trained in executor.train(chunk, start, correct):
            for params, floats, ints in zip(trained.params, *trained.buffers, strict=True):
                client = next(rows)
                model.load(params, Buffers(floats, ints))
                with one_thread():
                    blocks = federation.blocks("client", client)
                    found[client] = total([evaluate_block(job, model, block) for block in blocks])
    return client_scores(found, federation)


def client_scores(found: list[Evaluation | None], federation: Federation) -> ClientScores | None:
    """From each client's evaluation."""
    score = score_of(federation.task)
    metrics = [_metrics(each, federation) or {} for each in found]
    return ClientScores.of([each.get(score.name) for each in metrics], score)


def _metrics(found: Evaluation | None, federation: Federation) -> Mapping[str, float] | None:
    return None if found is None else metrics_of(found, federation.task)
