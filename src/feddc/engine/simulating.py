"""``simulate``: the rounds of a simulation, one record each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Required, Unpack

from torch import nn

from ..algorithms import Algorithm
from ..data import Federation
from ..options import Keywords, LocalTraining, Precision
from ..tasks import Task
from .callbacks import Callback
from .records import Record
from .simulation import Simulation


class Arguments(Keywords, total=False):
    """The keyword arguments of ``simulate``, ``train`` and ``compare``."""

    rounds: Required[int]
    training: LocalTraining | None
    cohorts: Any
    arrivals: Any
    steps: Any
    callbacks: Sequence[Callback]
    precision: Precision | None
    task: Task | None


def simulate(
    algorithm: Algorithm, model: nn.Module, federation: Federation, **arguments: Unpack[Arguments]
) -> Iterator[Record]:
    """Run ``rounds`` rounds of federated training and yield a record after each.

    Who takes part: ``participation`` (each client with that probability), ``cohort_size`` (this many, at random), or
    ``cohorts`` (a rounds × clients mask); everyone by default. ``steps``, an array of the same shape, gives the number
    of local steps of each client in each round, instead of ``epochs`` passes over its data.

    ``arrivals``, another mask, says who is a member at all. A client that joins starts from zero state; when a client
    leaves, all clients and the server restart from zero drift. This replays the schedule of a real federation.

    ``model`` is the initial module and is not changed. The global model is evaluated on the federation's test set every
    ``evaluate_every`` rounds and after the last. Arguments are checked at the call, before the first round.

    ``executor`` is how the clients are trained: "in-process" (one after another), "workers" (in ``workers`` processes,
    by default one for each core), "vectorised" (many clients at once, on ``device``), "ray" (on the Ray cluster at
    ``ray_address``, or one on this machine), or "auto". A seed gives the same batches with each.

    ``dropout`` is the probability with which a client of the cohort never answers. An update that is NaN, Inf, absurdly
    large or misshapen is never averaged in: it stops the run, or with ``on_bad_update="reject"`` it is left out, its
    client's state stays as it was, and the record says so.

    ``diagnostics`` measures the clients' drift in every round (``Record.drift``). ``callbacks`` are called at the
    start, after every record, and at the end: see ``Callback``.

    ``robust`` aggregates updates that may be poisoned ("norm:1", "trimmed-mean:0.2", "median", "centered-clip:1"), and
    ``attack`` poisons some ("sign-flip:3"). ``privacy`` clips updates and adds noise ("central:clip=1:noise=1.1",
    "distributed", "local"). ``epsilon`` and ``delta`` are a privacy budget: the noise is chosen for it, a run ends
    before it is exceeded, and ``Record.epsilon`` is what was spent. ``secure="simulated"`` rounds updates as secure
    aggregation does. Whatever is done to an update, its client remembers what the server used.

    ``evaluate`` is where to evaluate: "server" (the test set), "clients" (what each client holds out, see
    ``Federation.hold_out``), or "both". ``personal`` also scores each client's own model after local training; for
    that, every client with held-out samples is trained at every evaluation.

    ``compress="int8"`` or ``"bf16"`` rounds the vectors that are sent in both directions, at random; clients and server
    keep state for what was received.

    ``task`` replaces the federation's task.

    ``precision="bf16"`` sets the precision of ``training``: products in bfloat16, which is faster on hardware that has
    them; on a processor that does not, a warning says how much slower it is. ``evaluate_precision="bf16"`` does the
    same for evaluation, which is float32 otherwise.
    """
    return Simulation(algorithm, model, federation, **arguments).run()
