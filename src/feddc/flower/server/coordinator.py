"""A run under way: the round loop of a simulation, with clients that are asked over the network.

| file | holds |
|---|---|
| members.py, roster.py | who is connected; who is a member, with which weight |
| asking.py, answers.py | questions under way; what is let in of the answers |
| exchange.py, masking.py | a round: in the open, under secure aggregation |
| guarding.py | what is used of updates that are not trusted, or that get noise |
| judging.py | how good the model is |
| patience.py | a SuperLink that is too busy; a run that is ended from outside |
| checkpoint.py, directory.py | what a later run continues from; what others read |
| rollback.py | rounds taken back |
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from logging import INFO, getLogger
from pathlib import Path
from typing import Any

from flwr.serverapp import Grid
from torch import nn

from ...algorithms import Algorithm, evaluated, method_name
from ...engine import Record, Site
from ...engine.local.kernel import sharpened
from ...errors import DivergedError, check
from ...models import FlatModel, module_with
from ...options import Trust
from ..home import flower_home
from ..judging import Measures
from ..settings import Settings
from ..states import templates
from .asking import Correspondence
from .checkpoint import Checkpoint
from .directory import Directory, configuration
from .exchange import Exchange, Taken
from .guarding import ServerGuard
from .judging import Judges
from .members import Members
from .rollback import roll_back
from .roster import Roster

PATIENCE = {"refuse": 2.0, "use": 10.0}
"""So many times the time for an answer, a client is left to its work before it is asked anew."""
log = getLogger("flwr").log


class Coordinator:
    """A run under way; ``run`` yields a record for each round. Use it as a context manager: it holds a lock."""

    def __init__(
        self, grid: Grid, algorithm: Algorithm, module: nn.Module, settings: Settings, test: Any = None
    ) -> None:
        settings = replace(settings, training=sharpened(settings.training, algorithm))
        self.algorithm, self.module, self.settings, self.test = algorithm, module, settings, test
        self.name = method_name(algorithm)
        flat = FlatModel(module)
        self.shape = templates(algorithm, flat)
        check(
            settings.late == "refuse" or sum(field.numel() > 0 for field in self.shape.sent) == 1,
            f"late=use needs a method that sends only the model: {self.name} also sends a mean gradient, "
            "which has moved on when an answer comes late",
        )
        self.guard = ServerGuard(settings, algorithm, flat, bool(self.shape.client))
        self.questions = Correspondence(grid, settings.answer_within * PATIENCE[settings.late])
        folder = Path(settings.folder).expanduser() if settings.folder else flower_home() / "feddc"
        setup = setup_of(algorithm, settings, flat.params.numel())
        self.checkpoint = Checkpoint(folder, settings.experiment, setup, settings.keep)
        try:
            self.directory = Directory(self.checkpoint.folder, configuration(algorithm, module, settings))
            self.progress = self.checkpoint.load(self.shape.server, self.shape.buffers, self.changing)
            parts = self.progress, self.guard, self.questions
            self.roster = Roster(grid, settings, algorithm, module, *parts)
            about = settings, algorithm, self.shape, self.progress, self.roster, self.guard, self.questions
            self.exchange = Exchange(*about, self.checkpoint.folder)
            self.judges = Judges(settings, algorithm, self.progress, self.exchange)
        except BaseException:
            self.checkpoint.close()
            raise

    @property
    def members(self) -> Members:
        """Who is connected."""
        return self.roster.members

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
        settings, progress, budget = self.settings, self.progress, self.guard.budget
        where = f"continues after round {progress.round}" if progress.round else "begins"
        log(INFO, "feddc: experiment %s with %s %s", progress.id, self.name, where)
        if progress.round >= settings.rounds:
            log(INFO, "feddc: all %s rounds were run before: ask for more rounds to continue", settings.rounds)
            return
        self.checkpoint.drop_records_after(progress.round)
        self.directory.begin()
        self.roster.open()
        self.judges.begin(self.module, self.test)
        while progress.round < settings.rounds:
            if budget is not None and not budget.allows(progress.round + progress.undone + 1):
                log(INFO, "feddc: the privacy budget is spent after round %s", progress.round)
                break
            record = self.step()
            log(INFO, "feddc: %s", round_line(record, settings.rounds))
            yield record
        self.directory.end()

    def step(self) -> Record:
        """Run the next round."""
        began, progress = time.perf_counter(), self.progress
        round = progress.round + 1
        self.roster.update()
        taken = self.exchange.run(round, self.roster.cohort(round))
        own, theirs = self.judges.judged()
        record = Record(
            round,
            {name: value for name, value in own.items() if name != "samples"},
            tuple(taken.used),
            taken.bytes_up * len(taken.used),
            taken.bytes_down * len(taken.asked),
            time.perf_counter() - began,
            tuple(taken.rejected),
            tuple(taken.dropped),
            sites=tuple(site_of(client, n, taken, theirs) for client, n in sorted(progress.samples.items())),
            epsilon=self.guard.spent(round + progress.undone),
            score=progress.score,
        )
        self.checkpoint.save(progress, record)
        self.directory.keep_models(self.judged_module(), record, progress.agreed)
        return record

    def judged_module(self) -> nn.Module:
        """The module with the weights that are judged."""
        return module_with(self.module, evaluated(self.algorithm, self.progress.server), self.progress.buffers)

    @property
    def changing(self) -> tuple[str, ...]:
        """The settings that may be others than those that the experiment was begun with."""
        return ("robust",) if self.settings.rollback else ()


def site_of(client: int, samples: int, taken: Taken, judged: dict[int, Measures]) -> Site:
    """What is known of a member in this round."""
    said = taken.figures.get(client, {})
    return Site(
        client,
        samples,
        judged.get(client),
        said.get("update"),
        said.get("drift"),
        taken.seconds.get(client),
        taken.bytes_up if client in taken.used else 0,
        taken.bytes_down if client in taken.asked else 0,
    )


def setup_of(algorithm: Algorithm, settings: Settings, parameters: int) -> dict[str, Any]:
    """What has to stay the same for an experiment to be continued."""
    drawn = {key: getattr(settings, key) for key in ("seed", "participation", "cohort_size")}
    trust = {each.name: getattr(settings, each.name) for each in fields(Trust) if getattr(settings, each.name)}
    trust |= {"clients": settings.clients} if trust else {}  # its arithmetic is for so many
    drawn |= {} if settings.compress == "none" else {"compress": settings.compress}
    return {"method": repr(algorithm), **drawn, **asdict(settings.training), "parameters": parameters, **trust}


def round_line(record: Record, rounds: int) -> str:
    """A round in one line."""
    score = record.score
    value = "" if record.value is None else f"{score.name} {record.value:.4f}, "
    known = {site.client: (site.measures or {}).get(score.name) for site in record.sites}
    scores = {client: found for client, found in known.items() if found is not None}
    worst = (min if score.higher_is_better else max)(scores, key=scores.__getitem__, default=None)
    spread = "" if worst is None else f"worst site {worst} with {scores[worst]:.4f}, "
    sent = f"{record.bytes_up / 1e6:.3g} MB up, {record.bytes_down / 1e6:.3g} MB down"
    who = ", ".join(map(str, record.participants))
    return f"round {record.round}/{rounds}: {value}{spread}clients {who}, {sent}, {record.seconds:.1f} s"
