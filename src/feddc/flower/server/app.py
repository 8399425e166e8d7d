"""The Flower ServerApp: the round loop of a simulation, with clients that are asked over the network."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from logging import INFO, WARNING
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Context
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.utils import get_flwr_home
from torch import nn

from ...algorithms import Algorithm, make_method, method_name
from ...data import Federation
from ...data.federation import sample_weights
from ...engine import Record
from ...engine.cohorts import make_cohorts
from ...engine.evaluation import metrics_of
from ...engine.executors import InProcess
from ...engine.local import Job, Start, steps_column
from ...engine.records import Rejected
from ...engine.rounds import Sums, nbytes
from ...engine.screening import bad_rows
from ...errors import DataError, DivergedError, RunError
from ...models import FlatModel, module_with
from ...tasks import Classification, Task, score_of
from ...types import Cohort, Local
from ..packets import Packet
from ..references import Reference, find, reference
from ..settings import Settings, method_config, override, training_config
from ..states import as_rows, from_arrays, join_buffers, split_buffers, templates
from .checkpoint import Checkpoint
from .members import SETTLE_SECONDS, Members, RefusedError, SilentError


def server_app(
    algorithm: Algorithm | str,
    model: nn.Module | Reference,
    *,
    settings: Settings = Settings(),
    test: Reference | None = None,
    task: Task = Classification(),
) -> ServerApp:
    """A Flower ServerApp that runs ``algorithm``, the very object of a simulation or its text (``"feddc:alpha=0.1"``).

    ``model`` is the initial module, or a function that makes it, or that function's name; ``test()`` returns ``(x, y)``
    on which the global model is evaluated, as ``task`` says. Keys of the run's config override ``settings``, and its
    key ``method`` the algorithm. A run continues the experiment of its name where an earlier one stopped.
    """
    model = model if isinstance(model, nn.Module) else reference("model", model)
    held_out = None if test is None else reference("test", test)
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        module = model if isinstance(model, nn.Module) else find(model)()
        method = context.run_config.get("method", algorithm)
        coordinator = Coordinator(
            grid,
            make_method(method) if isinstance(method, str) else method,  # type: ignore[arg-type]
            module,
            override(settings, context.run_config),
            None if held_out is None else find(held_out)(),
            task,
        )
        for _ in coordinator.run():
            pass

    return app


class Coordinator:
    """A run under way; ``run`` yields a record for each round."""

    def __init__(
        self,
        grid: Grid,
        algorithm: Algorithm,
        module: nn.Module,
        settings: Settings,
        test: Any = None,
        task: Task = Classification(),
    ) -> None:
        self.algorithm, self.module, self.settings = algorithm, module, settings
        self.name = method_name(algorithm)
        flat = FlatModel(module)
        self.shape = templates(algorithm, flat)
        self.executor, self.score = evaluator(module, settings, test, task), score_of(task)
        self.cohorts = make_cohorts(
            settings.clients, settings.rounds, settings.participation, settings.cohort_size, None
        )
        folder = Path(settings.folder).expanduser() if settings.folder else get_flwr_home() / "feddc"
        self.checkpoint = Checkpoint(folder, settings.experiment, setup_of(algorithm, settings, flat.params.numel()))
        self.progress = self.checkpoint.load(self.shape.server, self.shape.buffers)
        self.members = Members(grid, settings.clients, flat.params.numel(), settings.wait)
        self.members.samples = self.progress.samples

    def run(self) -> Iterator[Record]:
        """The rounds that are left."""
        settings, progress = self.settings, self.progress
        begun = progress.round > 0
        where = f"continues after round {progress.round}" if begun else "begins"
        log(INFO, "feddc: experiment %s with %s %s", progress.id, self.name, where)
        if progress.round >= settings.rounds:
            log(INFO, "feddc: all %s rounds were run before: ask for more rounds to go on", settings.rounds)
            return
        self.checkpoint.drop_records_after(progress.round)
        # Everyone's number of samples is needed once; after that a round goes on without some.
        needed, settle = (settings.least, min(SETTLE_SECONDS, settings.wait)) if begun else (settings.clients, 0)
        self.members.gather(range(settings.clients), min(needed, settings.clients), settle)
        sizes = np.array([progress.samples[client] for client in range(settings.clients)], dtype=np.int64)
        self.weights = sample_weights(sizes)
        self.nominal = settings.training.nominal_steps(sizes)
        fixed = self.nominal if self.algorithm.fixed_steps else None
        self.steps = steps_column(sizes, settings.training, self.module, fixed)
        while progress.round < settings.rounds:
            record = self.step()
            log(INFO, "feddc: %s", describe(record, settings.rounds))
            yield record
        self.checkpoint.finish(module_with(self.module, progress.server.model, progress.buffers))

    def step(self) -> Record:
        """Run the next round."""
        began, progress, settings = time.perf_counter(), self.progress, self.settings
        round = progress.round + 1
        drawn = self.cohorts.draw(settings.seed, round).tolist()
        cohort = self.members.gather(drawn, min(settings.least, len(drawn)))
        for client in sorted(set(drawn) - set(cohort)):
            log(WARNING, "feddc: round %s goes on without client %s, which is not connected", round, client)
        sent = self.algorithm.broadcast(progress.server)
        arrays = join_buffers(sent, progress.buffers)
        questions = {client: Packet(self.question(round, client), arrays) for client in cohort}
        plan = vars(settings.training.schedule(round, self.nominal))
        sums, used, dropped, rejected = Sums(), list[int](), list[int](), list[Rejected]()
        for client, answer in self.members.ask(questions, round, settings.answer_within):
            try:
                upload, buffers = self.accept(client, round, answer)
            except RefusedError as reason:
                log(WARNING, "feddc: the answer of client %s in round %s is not used: %s", client, round, reason)
                if isinstance(reason, SilentError):
                    dropped.append(client)
                else:
                    rejected.append(Rejected(client, str(reason)))
                continue
            weight, local = self.weights[[client]], Local(steps=self.steps[[client]], **plan)
            sums.add(as_rows(upload), as_rows(buffers), weight, self.algorithm.weigh(local, weight))
            used.append(client)
        if not used:
            raise RunError(
                f"round {round} has no answer that can be used; the log says why, and another run tries again"
            )
        means, buffers = sums.means(progress.buffers)
        present = Cohort(participation=len(used) / settings.clients, size=len(used), **plan)
        server = self.algorithm.aggregate(progress.server, means, present)
        if not torch.isfinite(server.model).all():
            raise DivergedError(self.name, round)
        progress.server, progress.buffers, progress.round = server, buffers, round
        progress.seen |= dict.fromkeys(used, round)
        metrics = self.evaluate()
        up, down = (
            len(used) * (nbytes(self.shape.upload) + buffers.nbytes),
            len(cohort) * (nbytes(sent) + buffers.nbytes),
        )
        seconds = time.perf_counter() - began
        answers = tuple(rejected), tuple(dropped)
        record = Record(round, metrics, tuple(used), up, down, seconds, *answers, score=self.score)
        self.checkpoint.save(progress, record)
        return record

    def question(self, round: int, client: int) -> dict[str, Any]:
        """What a client is told beside the model."""
        return {
            "ask": "train",
            "experiment": self.progress.id,
            "round": round,
            "seen": self.progress.seen.get(client, 0),
            "weight": float(self.weights[client]),
            "steps": self.nominal,
            "seed": self.settings.seed,
            **method_config(self.algorithm),
            **training_config(self.settings.training),
        }

    def accept(self, client: int, round: int, answer: Packet | RefusedError) -> tuple[Any, Any]:
        """A client's upload and buffers; RefusedError with the reason if they are not what was asked for."""
        if isinstance(answer, RefusedError):
            raise answer
        expected = {"experiment": self.progress.id, "round": round, "client": client}
        for key, value in expected.items():
            if answer.config.get(key) != value:
                raise RefusedError(f"it is for {key} {answer.config.get(key)!r}, not {value!r}")
        vectors, own = split_buffers(answer.arrays)
        try:
            found = from_arrays(vectors, self.shape.upload), from_arrays(own, self.shape.buffers)
        except DataError as error:
            raise RefusedError(str(error)) from None
        first, *others = as_rows(found[0])
        for bad in bad_rows([client], first, others):  # absurdly large, as a simulation would refuse it
            raise RefusedError(bad.reason)
        if "lost" in answer.config:
            log(WARNING, "feddc: client %s began again from zero: %s", client, answer.config["lost"])
        return found

    def evaluate(self) -> dict[str, float]:
        """What is measured of the global model on the server's test set, if there is one and it is due."""
        progress, settings = self.progress, self.settings
        due = progress.round % settings.evaluate_every == 0 or progress.round == settings.rounds
        if self.executor is None or not due:
            return {}
        found = self.executor.evaluate(Start(progress.round, progress.server.model, progress.buffers))
        assert found is not None
        return metrics_of(found, self.executor.job.federation.task)


def evaluator(module: nn.Module, settings: Settings, test: Any, task: Task) -> InProcess | None:
    """What evaluates the global model on the samples ``test``."""
    if test is None:
        return None
    x, y = test
    federation = Federation.from_arrays(x, y, sizes=[len(y)], test=(x, y), task=task)
    return InProcess(Job(module, federation, settings.training, settings.seed, None))


def setup_of(algorithm: Algorithm, settings: Settings, parameters: int) -> dict[str, Any]:
    """What has to stay the same for an experiment to be continued."""
    drawn = {key: getattr(settings, key) for key in ("clients", "seed", "participation", "cohort_size")}
    return {"method": repr(algorithm), **drawn, **asdict(settings.training), "parameters": parameters}


def describe(record: Record, rounds: int) -> str:
    """A round in one line."""
    value = "" if record.value is None else f"{record.score.name} {record.value:.4f}, "
    sent = f"{record.bytes_up / 1e6:.3g} MB up, {record.bytes_down / 1e6:.3g} MB down"
    who = ", ".join(map(str, record.participants))
    return f"round {record.round}/{rounds}: {value}clients {who}, {sent}, {record.seconds:.1f} s"
