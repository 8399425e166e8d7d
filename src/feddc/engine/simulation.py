"""The loop over rounds. Command line, reports and tests only consume the records that it yields."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from ..algorithms import Algorithm, method_name
from ..data import Federation
from ..errors import ConfigError, DivergedError, check, check_count
from ..models import FlatModel, module_with
from .cohorts import make_cohorts
from .executors import choose
from .local import Job, LocalTraining, Start
from .records import Record, Result
from .rounds import run_round
from .store import ClientStore


def simulate(
    algorithm: Algorithm,
    model: nn.Module,
    federation: Federation,
    *,
    rounds: int,
    participation: float | None = None,
    cohort_size: int | None = None,
    cohorts: Any = None,
    training: LocalTraining | None = None,
    seed: int = 0,
    evaluate_every: int = 1,
    executor: str = "auto",
    workers: int | None = None,
    device: str = "auto",
    ray_address: str | None = None,
) -> Iterator[Record]:
    """Run ``rounds`` rounds of federated training and yield a record after each.

    Who takes part: ``participation`` (each client with that probability), ``cohort_size`` (so many, at random), or
    ``cohorts`` (a rounds × clients mask); everyone by default. ``model`` is the initial module and is not changed. The
    global model is evaluated on the federation's test set every ``evaluate_every`` rounds and after the last. Arguments
    are checked at the call, before the first round.

    ``executor`` is who trains the clients: "in-process", "workers" (as many processes as ``workers`` says, or one for
    each core), "vectorised" (many clients at once, on ``device``), "ray" (on the Ray cluster at ``ray_address``, or one
    on this machine), or "auto". A seed gives the same batches with each.
    """
    simulation = Simulation(
        algorithm,
        model,
        federation,
        rounds=rounds,
        participation=participation,
        cohort_size=cohort_size,
        cohorts=cohorts,
        training=training,
        seed=seed,
        evaluate_every=evaluate_every,
        executor=executor,
        workers=workers,
        device=device,
        ray_address=ray_address,
    )
    return simulation.run()


def train(algorithm: Algorithm, model: nn.Module, federation: Federation, **options: Any) -> Result:
    """Run a simulation to its end; the arguments are those of ``simulate``."""
    simulation = Simulation(algorithm, model, federation, **options)
    records = tuple(simulation.run())
    return Result(records, simulation.module())


class Simulation:
    """A simulation under way: ``run`` yields its records; ``server``, ``buffers`` and ``store`` are its state.

    ``executor_reason`` says in one sentence who trains the clients, and why.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        model: nn.Module,
        federation: Federation,
        *,
        rounds: int,
        participation: float | None = None,
        cohort_size: int | None = None,
        cohorts: Any = None,
        training: LocalTraining | None = None,
        seed: int = 0,
        evaluate_every: int = 1,
        executor: str = "auto",
        workers: int | None = None,
        device: str = "auto",
        ray_address: str | None = None,
    ) -> None:
        check_count("rounds", rounds)
        check_count("seed", seed, 0)
        check_count("evaluate_every", evaluate_every)
        check_fits(model, federation)
        self.algorithm, self.federation, self.rounds = algorithm, federation, rounds
        self.training = training or LocalTraining()
        self.seed, self.evaluate_every, self.round = seed, evaluate_every, 0
        self.cohorts = make_cohorts(len(federation), rounds, participation, cohort_size, cohorts)
        self.steps = self.training.nominal_steps(federation.sizes)
        initial = FlatModel(model)
        self.weights = federation.weights.to(initial.params.dtype)
        self.server = algorithm.init_server(initial.params.clone())
        self.buffers = initial.buffers()
        self.store = ClientStore(algorithm.init_client(self.server.model), len(federation))
        job = Job(model, federation, self.training, seed, self.steps if algorithm.fixed_steps else None)
        size = self.cohorts.mean_size
        self.executor, self.executor_reason = choose(job, rounds, size, executor, workers, device, ray_address)
        self._initial = model

    def run(self) -> Iterator[Record]:
        """The remaining rounds, one record each."""
        try:
            while self.round < self.rounds:
                yield self.step()
        finally:
            self.executor.close()

    def step(self) -> Record:
        """Run the next round."""
        began = time.perf_counter()
        self.round += 1
        cohort = self.cohorts.draw(self.seed, self.round).tolist()
        self.server, self.buffers, up, down = run_round(
            self.algorithm,
            self.server,
            self.buffers,
            self.store,
            self.executor,
            cohort,
            self.weights,
            self.round,
            self.steps,
            self.training.lr,
        )
        due = self.round % self.evaluate_every == 0 or self.round == self.rounds
        accuracy, loss = self.evaluate() if due else (None, None)
        return Record(self.round, accuracy, loss, tuple(cohort), up, down, time.perf_counter() - began)

    def evaluate(self) -> tuple[float | None, float | None]:
        """Accuracy and loss of the global model on the test set, if there is one."""
        found = self.executor.evaluate(Start(self.round, self.server.model, self.buffers))
        if found is None:
            return None, None
        loss = found.loss / found.samples
        if loss != loss or loss == float("inf"):
            raise DivergedError(method_name(self.algorithm), self.round)
        return found.correct / found.samples, loss

    def module(self) -> nn.Module:
        """A copy of the user's module with the current global weights and buffers."""
        return module_with(self._initial, self.server.model, self.buffers)


@torch.no_grad()
def check_fits(model: nn.Module, federation: Federation) -> None:
    """Refuse a model that cannot take the data's samples or does not have an output for every class."""
    check(isinstance(model, nn.Module), f"model must be a torch.nn.Module, not {type(model).__name__}")
    probe = copy.deepcopy(model).eval()
    sample = federation.x[:2]
    kind = next((p.dtype for p in probe.parameters()), torch.float32)
    try:
        out = probe(sample.to(kind) if sample.is_floating_point() else sample)
    except Exception as error:  # whatever the user's module raises, it does not fit
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(f"the model does not accept samples of shape {tuple(sample.shape[1:])}: {reason}") from error
    shape = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
    fits = isinstance(out, torch.Tensor) and out.ndim == 2 and out.shape[1] >= federation.classes
    check(fits, f"the model's output for 2 samples has shape {shape}, but the data has {federation.classes} classes")
