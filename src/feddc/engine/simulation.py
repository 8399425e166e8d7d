"""A simulation: the loop over rounds. Command line, reports and tests only consume the records that it yields."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from ..algorithms import Algorithm, evaluated
from ..data import Federation
from ..data.clients import sample_weights
from ..errors import ConfigError, RunError, check, check_count
from ..models import FlatModel, module_with
from ..options import Keywords, LocalTraining, Precision, options_from
from ..tasks import Task, score_of
from ..trust.secure import Masked
from ..types import Correction
from .callbacks import Callback, checked_callbacks
from .checks import check_fits, check_method
from .cohorts import Bernoulli, Given, answering, make_cohorts
from .compress import compression_of
from .drift import DriftMeter
from .executors import InProcess, Vectorised, choose
from .executors.choose import find_device
from .guarding import draws_of, guard_of, keyed, poisoned
from .judging import Judged, check_judges, judge, personal_scores
from .local.batches import given_steps, steps_column
from .local.kernel import Job, Start, sharpened
from .local.losses import own_loss
from .local.optimizers import check_optimizer
from .local.precision import check_precision
from .membership import Arrivals
from .records import Record
from .rounds import Handling, Participants, RoundState, diverged, run_round
from .state import filled, named
from .store import ClientStore


class Simulation:
    """A running simulation: ``run`` yields its records; ``server``, ``buffers`` and ``store`` are its state.

    The arguments are those of ``simulate``. ``executor_reason`` says in one sentence which executor is used, and why.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        model: nn.Module,
        federation: Federation,
        *,
        rounds: int,
        training: LocalTraining | None = None,
        cohorts: Any = None,
        arrivals: Any = None,
        steps: Any = None,
        callbacks: Sequence[Callback] = (),
        precision: Precision | None = None,
        task: Task | None = None,
        **options: Unpack[Keywords],
    ) -> None:
        check_count("rounds", rounds)
        self.options = options_from(options)
        check_method(algorithm)
        good = isinstance(federation, Federation)
        check(good, f"federation must be a feddc.Federation, not {type(federation).__name__}")
        good = training is None or isinstance(training, LocalTraining)
        check(good, f"training must be a feddc.LocalTraining, not {type(training).__name__}")
        training = training or LocalTraining()
        federation = federation if task is None else federation.with_task(task)
        check_fits(model, federation)
        self.score = score_of(federation.task)
        check_judges(federation, self.options)
        check_optimizer(algorithm, training)
        self.algorithm, self.federation, self.rounds = algorithm, federation, rounds
        training = training if precision is None else replace(training, precision=precision)
        self._training = sharpened(training, algorithm)
        self.round = 0
        self.undone = 0
        """How many rounds were run and taken back: what they cost in privacy stays spent."""
        self.cohorts = make_cohorts(len(federation), rounds, self.options, cohorts)
        self.nominal = self.training.nominal_steps(federation.sizes)
        initial = FlatModel(model)
        self.weights = federation.weights.to(initial.params.dtype)
        drawn = draws_of(self.cohorts, len(federation))
        self.guard = guard_of(self.options, algorithm, initial, drawn, rounds, keyed(self.options.seed))
        real = self.guard is not None and isinstance(self.guard.secure, Masked)
        check(not real, "secure=masked is for Flower: in a simulation secure=simulated rounds updates in the same way")
        if self.guard is not None and self.guard.privacy is not None:
            self.weights = torch.ones_like(self.weights)  # everyone counts the same, so that nobody needs more noise
        if self.guard is not None and self.guard.central and isinstance(self.cohorts, Bernoulli):
            self.cohorts = replace(self.cohorts, empty=True)
        self.arrivals = None if arrivals is None else Arrivals(arrivals, rounds, federation.sizes)
        alone = self.arrivals is None or self.guard is None
        check(alone, "arrivals cannot be combined with robust, attack, privacy or secure")
        compression = compression_of(self.options, algorithm)
        self.handling = Handling(self.options.on_bad_update, self.guard, compression)
        self.server = algorithm.init_server(initial.params.clone())
        self.buffers = initial.buffers()
        self.store = ClientStore(algorithm.init_client(self.server.model), len(federation))
        fixed = self.nominal if algorithm.fixed_steps else None
        self.steps = steps_column(federation.sizes, self.training, model, fixed).to(initial.params.dtype)
        self.given = None if steps is None else given_steps(steps, rounds, len(federation))
        work = fixed if self.given is None else self.given
        self.job = Job(
            model,
            poisoned(federation, self.guard),
            self.training,
            self.options.seed,
            work,
            own_loss(algorithm),
            self.options.evaluate_precision,
        )
        self.executor, self.executor_reason = choose(self.job, rounds, self.cohorts.mean_size, self.options)
        for precision in {self.training.precision, self.options.evaluate_precision}:
            check_precision(precision, initial.params.dtype, find_device(self.options.device))
        self.callbacks = checked_callbacks(callbacks)
        self._initial = model
        self._between_rounds = True

    def run(self) -> Generator[Record, None, None]:
        """The remaining rounds, one record each."""
        with contextlib.ExitStack() as ending:
            ending.callback(self.executor.close)
            for each in self.callbacks:
                each.on_start(self)
                ending.callback(each.on_end)
            while self.round < self.rounds and self.within_budget:
                record = self.step()
                for each in self.callbacks:
                    each.on_record(record)
                yield record

    @property
    def within_budget(self) -> bool:
        """Whether another round stays within the privacy budget, if there is one."""
        budget = None if self.guard is None else self.guard.budget
        return budget is None or budget.allows(self.round + self.undone + 1)

    def step(self) -> Record:
        """Run the next round."""
        began = time.perf_counter()
        self._between_rounds = False
        self.round += 1
        sampled = self._drawn() if self.arrivals is None else self._drawn_of_members(self.arrivals)
        cohort, dropped = answering(sampled, len(self.federation), self.options.dropout, self.options.seed, self.round)
        meter = DriftMeter() if self.options.diagnostics else None
        steps = self.steps if self.given is None else self.weights.new_tensor(self.given[self.round - 1]).unsqueeze(1)
        members = None if self.arrivals is None else len(self.arrivals.members(self.round))
        done = run_round(
            self.algorithm,
            RoundState(self.server, self.buffers, self.store),
            Participants(cohort, self.weights, steps, members),
            self.training.schedule(self.round, self.nominal),
            self.executor,
            self.handling,
            meter,
        )
        self.server, self.buffers = done.server, done.buffers
        sent = self.handling.nbytes(self.algorithm.broadcast(done.server)) + done.buffers.nbytes
        down = done.bytes_down + len(dropped) * sent
        last = self.round == self.rounds or not self.within_budget
        due = self.round % self.options.evaluate_every == 0 or last
        judged = self.evaluate() if due else Judged()
        self._between_rounds = True
        seconds = time.perf_counter() - began
        drift = None if meter is None else meter.result()
        moved = (done.bytes_up, down)
        answers = (done.rejected, tuple(dropped))
        epsilon = None if self.guard is None else self.guard.spent(self.round + self.undone)
        made = (self.round, judged.metrics, done.accepted, *moved, seconds, *answers)
        return Record(*made, drift=drift, epsilon=epsilon, score=self.score, **judged.others())

    def _drawn(self) -> list[int]:
        """Who is asked in this round."""
        return list(self.cohorts.draw(self.options.seed, self.round).tolist())

    def _drawn_of_members(self, arrivals: Arrivals) -> list[int]:
        """Who of the members is asked, after the server's and the clients' state have followed who came and went."""
        members = sorted(arrivals.members(self.round))
        self.server = arrivals.moved(self.algorithm, self.server, self.round)
        if arrivals.left(self.round):
            self.store = ClientStore(self.algorithm.init_client(self.server.model), len(self.federation))
        self.weights = self.weights.clone()
        self.weights[members] = sample_weights(self.federation.sizes[members]).to(self.weights.dtype)
        if isinstance(self.cohorts, Given):
            return [client for client in self._drawn() if client in members]
        size = self.options.cohort_size and min(self.options.cohort_size, len(members))
        drawn = make_cohorts(len(members), self.rounds, replace(self.options, cohort_size=size))
        return [members[place] for place in drawn.draw(self.options.seed, self.round).tolist()]

    def state(self) -> dict[str, Tensor]:
        """Server and buffers as named tensors. With ``round`` and the rows of ``store`` it is all there is to keep."""
        if not self._between_rounds:  # some clients may have moved on and others not
            raise RunError(f"round {self.round} was not finished, so its state cannot be kept")
        return named("server", self.server) | named("buffers", self.buffers)

    def restore(self, round: int, tensors: Mapping[str, Tensor]) -> None:
        """Go on after ``round`` from what ``state`` gave then; the rows of the clients go into ``store``."""
        self.server = filled("server", self.server, tensors)
        self.buffers = filled("buffers", self.buffers, tensors)
        self.round = round

    def evaluate(self) -> Judged:
        """The global model on all that there is, and is wanted, to judge it by."""
        start = Start(self.round, evaluated(self.algorithm, self.server), self.buffers)
        judged = judge(self.executor, self.federation, start, self.options.evaluate)
        if not math.isfinite(judged.metrics.get("loss", 0.0)):
            raise diverged(self.algorithm, self.round)
        if not self.options.personal:
            return judged
        unspoilt = replace(self.job, federation=self.federation)
        own = personal_scores(self.executor, unspoilt, start, self._correct)
        return judged._replace(personal=own)

    def _correct(self, clients: Sequence[int]) -> Correction:
        """The corrections of these clients if they trained from the present model."""
        sent, rows = self.algorithm.broadcast(self.server), list(clients)
        return self.algorithm.correct(sent, self.store.gather(clients), self.weights[rows])

    @property
    def training(self) -> LocalTraining:
        """How clients train, from the first round to the last."""
        return self._training

    @training.setter
    def training(self, _: LocalTraining) -> None:
        raise ConfigError("a simulation's training is fixed when it is made: make another Simulation")

    @property
    def arithmetic(self) -> str:
        """Whose rounding this is: simulations with the same word here give the same bits."""
        for kind, name in ((Vectorised, "vectorised"), (InProcess, "in-process")):
            if isinstance(self.executor, kind) and self.executor.device is not None:
                return f"{name} on {self.executor.device}"
        return "plain"

    def module(self) -> nn.Module:
        """A copy of the user's module with the current global weights and buffers."""
        return module_with(self._initial, evaluated(self.algorithm, self.server), self.buffers)
