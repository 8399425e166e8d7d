"""A run under way: the round loop of a simulation, with clients that are asked over the network."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, replace
from logging import INFO, WARNING, getLogger
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from flwr.app import MessageType
from flwr.serverapp import Grid
from torch import nn

from ...algorithms import Algorithm, evaluated, method_name
from ...data.federation import sample_weights
from ...engine import Record, Site
from ...engine.cohorts import make_cohorts
from ...engine.guarding import draws_of, guard_of
from ...engine.local import Start, sharpened, steps_column
from ...engine.membership import resized, restarted, sizes_of
from ...engine.records import Rejected
from ...engine.rounds import Sums, diverged, nbytes
from ...errors import DivergedError, RunError, check
from ...models import Buffers, FlatModel, module_with
from ...options import Sampling, Trust
from ...trust.privacy import Budget
from ...trust.secure import Masked, Secure
from ...types import Cohort, Local, Means, Weights
from ..client.settling import FACTOR, filter_message
from ..home import flower_home
from ..judging import Judge, Measures
from ..packets import Packet
from ..samples import agree, as_samples
from ..settings import Settings, method_config, training_config
from ..states import ModelOnly, as_rows, join_buffers, templates
from .answers import Answers, Introduction, introduction, measures
from .asking import Correspondence, RefusedError, SilentError
from .checkpoint import Checkpoint
from .directory import Directory, configuration
from .members import SETTLE_SECONDS, Members, bindings
from .rollback import roll_back

MOST_CLIENTS = 100_000
PATIENCE = {"refuse": 2.0, "use": 10.0}
"""So many times the time for an answer, a client is left to its work before it is asked anew."""
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


def unpredictable(_round: int, _client: int) -> np.random.Generator:
    """Noise of the server that nobody can repeat."""
    return np.random.default_rng(secrets.randbits(256))


class Coordinator:
    """A run under way; ``run`` yields a record for each round. Use it as a context manager: it holds a lock."""

    def __init__(
        self, grid: Grid, algorithm: Algorithm, module: nn.Module, settings: Settings, test: Any = None
    ) -> None:
        settings = replace(settings, training=sharpened(settings.training, algorithm))
        self.algorithm, self.module, self.settings, self.test = algorithm, module, settings, test
        self.name = method_name(algorithm)
        flat = FlatModel(module)
        self.parameters = flat.params.numel()
        self.shape = templates(algorithm, flat)
        check(
            settings.late == "refuse" or sum(field.numel() > 0 for field in self.shape.sent) == 1,
            f"late=use needs a method that sends only the model: {self.name} also sends a mean gradient, "
            "which has moved on when an answer comes late",
        )
        sampling = Sampling(settings.participation, settings.cohort_size)
        self.cohorts = make_cohorts(settings.clients, settings.rounds, sampling)
        drawn = draws_of(self.cohorts, settings.clients, empty=False)
        self.guard = guard_of(settings, algorithm, flat, drawn, settings.rounds, unpredictable)
        self.check_guard()
        self.members = Members(grid, self.introduce, settings.wait, bindings(settings.nodes))
        self.questions = Correspondence(grid, settings.answer_within * PATIENCE[settings.late])
        self.introduced: dict[int, Introduction] = {}
        self.begun = False
        self.judge: Judge | None = None
        folder = Path(settings.folder).expanduser() if settings.folder else flower_home() / "feddc"
        setup = setup_of(algorithm, settings, self.parameters)
        self.checkpoint = Checkpoint(folder, settings.experiment, setup, settings.keep)
        self.directory = Directory(self.checkpoint.folder, configuration(algorithm, module, settings))
        try:
            self.progress = self.checkpoint.load(self.shape.server, self.shape.buffers, self.changing)
        except BaseException:
            self.checkpoint.close()
            raise

    def __enter__(self) -> Coordinator:
        return self

    def __exit__(self, *_: object) -> None:
        self.checkpoint.close()

    def run(self) -> Iterator[Record]:
        """The rounds that are left; after the last, another run may continue the experiment."""
        with self:
            try:
                yield from self._rounds()
            except DivergedError as error:
                self.directory.end(error)
                raise

    def _rounds(self) -> Iterator[Record]:
        if self.settings.rollback:
            roll_back(self)
        settings, progress = self.settings, self.progress
        begun = progress.round > 0
        where = f"continues after round {progress.round}" if begun else "begins"
        log(INFO, "feddc: experiment %s with %s %s", progress.id, self.name, where)
        if progress.round >= settings.rounds:
            log(INFO, "feddc: all %s rounds were run before: ask for more rounds to continue", settings.rounds)
            return
        self.checkpoint.drop_records_after(progress.round)
        self.directory.begin()
        if begun:
            self.members.gather(sorted(progress.samples), 1, min(SETTLE_SECONDS, settings.wait))
        else:  # everyone is needed once, to agree on a scale and on classes; later rounds go on without some
            self.members.gather(range(settings.clients), settings.clients)
            first = {client: self.introduced[client] for client in range(settings.clients)}
            progress.agreed = agree((each.moments for each in first.values()), (each.names for each in first.values()))
            progress.samples = {client: each.samples for client, each in first.items()}
        self.begun = True
        if self.test is not None:
            self.judge = Judge(self.module, as_samples(self.test).tested(progress.agreed))
        while progress.round < settings.rounds:
            if self.budget is not None and not self.budget.allows(progress.round + progress.undone + 1):
                log(INFO, "feddc: the privacy budget is spent after round %s", progress.round)
                break
            record = self.step()
            log(INFO, "feddc: %s", describe(record, settings.rounds))
            yield record
        self.directory.end()

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
        agreed = self.progress.agreed
        if self.begun or self.progress.round:
            columns = 0 if found.moments is None else found.moments.mean.size
            if columns != len(agreed.mean) or not set(found.names) <= set(agreed.classes):
                raise RefusedError(f"client {client} has other columns or classes than the members agreed on")
            if self.guard is not None and self.progress.samples.get(client) != found.samples:
                raise RefusedError(
                    f"client {client} joins or has other samples than before, but with robust, privacy or secure the "
                    "members stay those that the experiment began with"
                )
        self.introduced[client] = found

    def update_members(self) -> None:
        """Let in who is new, take note of changed sample counts, and drop who has been away for too long.

        Not where updates are guarded: thresholds and noise are planned for those that the experiment began with.
        """
        progress, now = self.progress, time.time()
        self.members.refresh()
        if self.guard is not None:
            return
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
        samples = dict(progress.samples)
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

    def step(self) -> Record:
        """Run the next round."""
        began, progress = time.perf_counter(), self.progress
        round = progress.round + 1
        self.update_members()
        self.weigh()
        cohort = self.cohort(round)
        sent = self.algorithm.broadcast(progress.server)
        arrays = join_buffers(sent, progress.buffers) | progress.agreed.arrays()
        questions = {client: Packet(self.question(round, client), arrays | self.decided(client)) for client in cohort}
        taken = self.plain(round, questions) if self.secure is None else self.masked(round, questions, self.secure)
        used, asked, seconds, dropped, rejected, figures, up = taken
        own, theirs = self.evaluate()
        down = nbytes(sent) + progress.buffers.nbytes
        sites = tuple(
            Site(
                client,
                progress.samples[client],
                theirs.get(client),
                said.get("update"),
                said.get("drift"),
                seconds.get(client),
                up if client in used else 0,
                down if client in asked else 0,
            )
            for client in sorted(progress.samples)
            for said in [figures.get(client, {})]
        )
        record = Record(
            round,
            {name: value for name, value in own.items() if name != "samples"},
            tuple(used),
            up * len(used),
            down * len(asked),
            time.perf_counter() - began,
            tuple(rejected),
            tuple(dropped),
            sites=sites,
            epsilon=None if self.guard is None else self.guard.spent(round + progress.undone),
        )
        self.checkpoint.save(progress, record)
        self.directory.keep_models(self.judged_module(), record, progress.agreed)
        return record

    def judged_module(self) -> nn.Module:
        """The module with the weights that are judged."""
        return module_with(self.module, evaluated(self.algorithm, self.progress.server), self.progress.buffers)

    def plain(self, round: int, questions: Mapping[int, Packet]) -> Taken:
        """A round in which the server reads every answer."""
        progress, least = self.progress, self.least
        asked = [client for client, packet in questions.items() if self.ask(client, packet, round)]
        with Answers(self.checkpoint.folder, progress.id, self.shape) as answers:
            seconds, dropped, rejected = self.collect(round, asked, answers)
            used = sorted(answers.updates)
            if len(used) < min(least, len(questions)):
                raise RunError(
                    f"round {round} has {len(used)} answers that can be used, but min-answers is "
                    f"{least}; the log says why, and another run tries again"
                )
            up = self.add_up(round, answers, used)
            progress.seen |= {client: answers.updates[client].round for client in used}
            progress.filters = {of: each for of, each in progress.filters.items() if of in progress.seen.values()}
            figures = {client: answers.updates[client].figures for client in used}
        return Taken(used, asked, seconds, dropped, rejected, figures, up)

    def masked(self, round: int, questions: Mapping[int, Packet], secure: Secure) -> Taken:
        """A round of secure aggregation."""
        from .masking import MaskedRound

        progress, cohort = self.progress, list(questions)
        about = secure, progress.id, round, self.everyone(round), progress.server.model
        found = MaskedRound(*about, self.ask, self.questions.arrivals).run(questions, self.settings.answer_within)
        used = sorted(found.used)
        if len(used) < self.least:
            raise RunError(
                f"round {round} has {len(used)} answers, but min-answers is {self.least}; another run tries again"
            )
        self.move(round, found.means, progress.buffers, len(used), len(used))
        progress.seen |= dict.fromkeys(used, round)
        missing = [client for client in cohort if client not in used]
        return Taken(used, cohort, found.seconds, missing, [], {}, found.bytes_up)

    @property
    def least(self) -> int:
        """How many answers a round needs; where sites share the noise, as many as it was shared among."""
        return max(self.settings.min_answers, 0 if self.guard is None else self.guard.least)

    @property
    def secure(self) -> Secure | None:
        return None if self.guard is None else self.guard.secure

    @property
    def budget(self) -> Budget | None:
        return None if self.guard is None else self.guard.budget

    def check_guard(self) -> None:
        """Refuse what a real federation does not have."""
        if self.guard is not None:
            real = self.guard.secure is None or isinstance(self.guard.secure, Masked)
            check(real, "on Flower updates are really masked: secure=masked, with the options of simulated")
            check(self.guard.filtered.always, "on Flower robust applies from the round in which it is first given")
            on_time = self.guard.secure is None or self.settings.late == "refuse"
            check(on_time, "secure=masked adds up what is there in time: late=use is not possible with it")
            check(
                not self.later or self.settings.late == "refuse",
                "robust compares answers of one round: use late=refuse",
            )

    def everyone(self, round: int) -> Weights:
        """The weights that the method names, of all clients."""
        plan = vars(self.settings.training.schedule(round, self.nominal))
        return self.algorithm.weigh(Local(steps=self.steps, **plan), self.weights)

    def weigh(self) -> None:
        """ω_i and K_i of every member, and the nominal number of steps, from the samples that they have now."""
        clients, training = sorted(self.progress.samples), self.settings.training
        sizes = np.array([self.progress.samples[client] for client in clients], dtype=np.int64)
        self.nominal = training.nominal_steps(sizes)
        fixed = self.nominal if self.algorithm.fixed_steps else None
        self.weights, self.steps = torch.ones(clients[-1] + 1, 1), torch.ones(clients[-1] + 1, 1)
        self.steps[clients] = steps_column(sizes, training, self.module, fixed)
        if self.guard is None or self.guard.privacy is None:  # with noise everyone counts the same, as in a simulation
            self.weights[clients] = sample_weights(sizes)

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
                log(WARNING, "feddc: round %s goes on without client %s, which is not connected", round, client)
            elif busy[client] is not None:
                log(WARNING, "feddc: client %s is still at work on round %s", client, busy[client])
        return [client for client in here if busy[client] is None]

    def ask(self, client: int, packet: Packet, round: int, kind: str = MessageType.TRAIN) -> bool:
        """Send a question; whether it could be sent."""
        sent = self.questions.ask(client, self.members.nodes[client], packet, round, self.settings.answer_within, kind)
        if not sent:
            log(WARNING, "feddc: the question to client %s in round %s could not be sent", client, round)
        return sent

    def collect(
        self, round: int, asked: list[int], answers: Answers
    ) -> tuple[dict[int, float], list[int], list[Rejected]]:
        """Take answers until all are there or the round's time is over: seconds of each, who is silent, who refused."""
        seconds: dict[int, float] = {}
        silent, rejected = set(asked), dict[int, str]()
        for client, of, answer, took in self.questions.arrivals(round, time.monotonic() + self.settings.answer_within):
            try:
                if of != round and self.settings.late == "refuse":
                    raise SilentError(f"it came too late, in round {round}")
                self.note_samples(client, answer)
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

    def note_samples(self, client: int, answer: Packet | RefusedError) -> None:
        """A client that has read its data again says how many samples it has: they count from the next round on."""
        said = None if isinstance(answer, RefusedError) else answer.config.get("samples")
        if isinstance(said, int) and not isinstance(said, bool) and 1 <= said <= self.settings.most_samples:
            self.introduced[client] = self.introduced[client]._replace(samples=said)

    def add_up(self, round: int, answers: Answers, used: list[int]) -> int:
        """Move the server on by the mean of these clients' answers; the bytes of one of them."""
        progress, sums, training = self.progress, Sums(), self.settings.training
        for client, upload, own in self.used_updates(round, answers, used):
            plan = vars(training.schedule(answers.updates[client].round, self.nominal))
            weight, local = self.weights[[client]], Local(steps=self.steps[[client]], **plan)
            sums.add(as_rows(upload), as_rows(own), weight, self.algorithm.weigh(local, weight))
        means, buffers = sums.means(progress.buffers)
        self.move(round, means, buffers, len(used), sums.size)
        progress.norm = float(np.median([answers.updates[client].norm for client in used]))
        return nbytes(self.shape.upload) + buffers.nbytes

    def used_updates(self, round: int, answers: Answers, used: list[int]) -> Iterator[tuple[int, Any, Any]]:
        """Of each client, what the server uses of its update, and its buffers."""
        if self.guard is None or self.guard.robust is None:
            for client in used:
                upload, own = answers.read(client)
                if self.guard is not None:
                    upload = upload._replace(delta=self.guard.at_server(upload.delta.unsqueeze(0))[0].squeeze(0))
                yield client, upload, own
            return
        everyone = [answers.read(client) for client in used]
        rows, rule = self.guard.at_server(torch.stack([upload.delta for upload, _ in everyone]))
        if self.later and rule is not None:
            for row, client in enumerate(used):
                told, self.progress.filters[round] = filter_message(rule, row)
                self.progress.factors[client] = told[FACTOR]
        for client, delta, (upload, own) in zip(used, rows, everyone, strict=True):
            yield client, upload._replace(delta=delta), own

    @property
    def later(self) -> bool:
        """Whether clients keep state that depends on what a robust rule uses of their updates."""
        return self.guard is not None and self.guard.robust is not None and bool(self.shape.client)

    def decided(self, client: int) -> dict[str, Any]:
        """The arrays that tell a client what was used of its last update."""
        return self.progress.filters.get(self.progress.seen.get(client, 0), {}) if self.later else {}

    def move(self, round: int, means: Means, buffers: Buffers, number: float, size: int) -> None:
        """Move the server on by these means of ``size`` clients."""
        progress, plan = self.progress, vars(self.settings.training.schedule(round, self.nominal))
        if self.guard is not None and self.guard.central:
            number = self.guard.draws.size
            means = self.guard.released(means, size, self.everyone(round), round)
        present = Cohort(participation=number / len(progress.samples), size=int(number), **plan)
        server = self.algorithm.aggregate(progress.server, means, present)
        if not torch.isfinite(server.model).all():
            raise diverged(self.algorithm, round)
        progress.server, progress.buffers, progress.round = server, buffers, round

    def question(self, round: int, client: int) -> dict[str, Any]:
        """What a client is told beside the model."""
        return {
            "ask": "train",
            "experiment": self.progress.id,
            "round": round,
            "seen": self.progress.seen.get(client, 0),
            "oldest": self.oldest(client),
            "weight": float(self.weights[client]),
            "steps": self.nominal,
            "seed": self.settings.seed,
            "classes": list(self.progress.agreed.classes),
            **method_config(self.algorithm),
            **training_config(self.settings.training),
            **({} if self.guard is None else self.guard.asked_of_sites()),
            **({"guard.later": True} if self.later else {}),
            **({FACTOR: self.progress.factors[client]} if client in self.progress.factors else {}),
        }

    def oldest(self, client: int) -> int:
        """The earliest round of which this client's state may be needed again."""
        seen = self.progress.seen.get(client, 0)
        return min((each.get(client, 0) for each in self.checkpoint.kept.values()), default=seen)

    @property
    def changing(self) -> tuple[str, ...]:
        """The settings that may be others than those that the experiment was begun with."""
        return ("robust",) if self.settings.rollback else ()

    def evaluate(self) -> tuple[Measures, dict[int, Measures]]:
        """The global model on the server's test set and on every connected site's, where it is due."""
        progress, settings = self.progress, self.settings
        if progress.round % settings.evaluate_every and progress.round != settings.rounds:
            return {}, {}
        found = {}
        if settings.test_sites:
            classes = list(progress.agreed.classes)
            config = {"ask": "evaluate", "experiment": progress.id, "round": progress.round, "classes": classes}
            judged = ModelOnly(evaluated(self.algorithm, progress.server))
            arrays = join_buffers(judged, progress.buffers) | progress.agreed.arrays()
            for client, node in self.members.nodes.items():
                if self.introduced[client].held_out and self.questions.busy(client, node) is None:
                    self.ask(client, Packet(config, arrays), progress.round, MessageType.EVALUATE)
            within = time.monotonic() + settings.answer_within
            for client, of, answer, _ in self.questions.arrivals(progress.round, within, MessageType.EVALUATE):
                try:
                    found[client] = measures(client, of, progress.id, answer)
                except RefusedError as reason:
                    log(WARNING, "feddc: client %s has not judged the model of round %s: %s", client, of, reason)
        start = Start(progress.round, evaluated(self.algorithm, progress.server), progress.buffers)
        own = {} if self.judge is None else self.judge.measures(start)
        return own or mean_measures(found), found


def mean_measures(sites: dict[int, Measures]) -> Measures:
    """The mean over all sites' held-out samples: what a server without a test set knows of its model."""
    weights = {client: each["samples"] for client, each in sites.items() if each.get("samples")}
    if not weights:
        return {}
    names = set.intersection(*(set(sites[client]) for client in weights))
    total = sum(weights.values())
    return {name: sum(sites[c][name] * n for c, n in weights.items()) / total for name in names - {"samples"}}


def setup_of(algorithm: Algorithm, settings: Settings, parameters: int) -> dict[str, Any]:
    """What has to stay the same for an experiment to be continued."""
    drawn = {key: getattr(settings, key) for key in ("seed", "participation", "cohort_size")}
    trust = {each.name: getattr(settings, each.name) for each in fields(Trust) if getattr(settings, each.name)}
    trust |= {"clients": settings.clients} if trust else {}  # its arithmetic is for so many
    return {"method": repr(algorithm), **drawn, **asdict(settings.training), "parameters": parameters, **trust}


def describe(record: Record, rounds: int) -> str:
    """A round in one line."""
    accuracy = "" if record.accuracy is None else f"accuracy {record.accuracy:.4f}, "
    scores = {site.client: site.measures["accuracy"] for site in record.sites if site.measures}
    worst = min(scores, key=scores.__getitem__) if scores else None
    spread = "" if worst is None else f"worst site {worst} with {scores[worst]:.4f}, "
    sent = f"{record.bytes_up / 1e6:.3g} MB up, {record.bytes_down / 1e6:.3g} MB down"
    who = ", ".join(map(str, record.participants))
    return f"round {record.round}/{rounds}: {accuracy}{spread}clients {who}, {sent}, {record.seconds:.1f} s"
