"""Studies from Python: ``train`` and ``compare`` with objects of any kind, and ``load_run``.

With ``out`` they write the same run directories as `feddc run` and `feddc compare`, for `feddc report` and
`feddc watch`. The same call again continues or returns these runs.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
from safetensors.torch import load_model
from torch import Tensor, nn

from ..algorithms import METHODS, SERVERS, Algorithm, make_method, method_name
from ..data import Federation
from ..engine import Result, Simulation
from ..engine.simulating import Arguments
from ..errors import ConfigError, FedDCError, RunError, check
from ..models import make_model
from ..options import LocalTraining, Options
from ..specs import options as options_of
from .cells import Cell, labels
from .config import FIELDS, SHORTHANDS, Config
from .jobs import Processes
from .runinfo import read_info, status
from .runner import Outcome, read_outcome
from .sources import MakeFederation, MakeModel, Objects
from .study import Listener, Study


def train(
    algorithm: Algorithm | str,
    model: nn.Module | str | MakeModel,
    federation: Federation | MakeFederation,
    *,
    out: str | Path | None = None,
    target: float = Config.target,
    checkpoint: str = Config.checkpoint,
    keep: int = Config.keep,
    **arguments: Unpack[Arguments],
) -> Result:
    """Run a simulation to its end; the other arguments are those of ``simulate``.

    ``algorithm`` and ``model`` may be names as on the command line; ``model`` and ``federation`` may be functions of
    the seed. ``out`` is a run directory, as `feddc run` writes it: the same call again continues or returns that run,
    and a call with other arguments is refused. ``feddc.roll_back`` rolls back rounds of it; checkpoints of the last
    ``keep`` rounds are kept for that.
    """
    seed = arguments.get("seed", 0)
    method = make_method(algorithm) if isinstance(algorithm, str) else algorithm
    source = Objects({}, model, federation, _more(arguments))
    if out is None:
        simulation = Simulation(method, source.model(seed), source.federation(seed), **arguments)
        records = tuple(simulation.run())
        return Result(records, simulation.module().eval())
    config = replace(_config(method, source, seed, arguments, target, checkpoint), keep=keep)
    source.methods[config.method] = method
    cell = Cell("", "", "", config)
    outcome = Study("run", (cell,), Path(out)).run(source, Listener())[cell]
    if outcome.error is not None:
        raise outcome.error
    return _result(Path(out), outcome, source)


def compare(
    methods: Sequence[Algorithm | str],
    model: nn.Module | str | MakeModel,
    federation: Federation | MakeFederation,
    *,
    seeds: Sequence[int] = (0,),
    out: str | Path | None = None,
    jobs: int = 1,
    target: float = Config.target,
    checkpoint: str = Config.checkpoint,
    **arguments: Unpack[Arguments],
) -> dict[str, tuple[Result, ...]]:
    """Train several methods on the same federation, from the same model, with the same cohorts, for every seed.

    Returns the results of each method, one per seed, by its name (with its options where two methods have the same
    name). ``out`` is a folder with a run directory for each, as `feddc compare` writes it: the same call again
    continues or returns these runs. ``jobs`` is the number of runs at a time. Other arguments are those of ``train``.
    A model or federation that is an object is the same for all seeds; give functions of the seed to vary them. A
    result of a run that diverged has an ``error``.
    """
    check("seed" not in arguments, "compare takes seeds=, a list of them, in place of seed=")
    check(len(methods) > 0 and len(seeds) > 0, "compare needs at least one method and one seed")
    check(jobs == 1 or not arguments.get("callbacks"), "callbacks cannot be told of other processes: leave jobs at 1")
    source = Objects({}, model, federation, _more(arguments))
    made = [make_method(each) if isinstance(each, str) else each for each in methods]
    configs = {seed: [_config(each, source, seed, arguments, target, checkpoint) for each in made] for seed in seeds}
    named = labels(configs[seeds[0]])
    check(len(set(named)) == len(named), f"two of the methods are the same: {', '.join(named)}")
    for config, method in zip(configs[seeds[0]], made, strict=True):
        source.methods[config.method] = method
    cells = {
        (label, seed): Cell("", label if len(seeds) == 1 else f"{label}-s{seed}", "", config)
        for seed in seeds
        for label, config in zip(named, configs[seed], strict=True)
    }
    with tempfile.TemporaryDirectory(prefix="feddc-") as folder:
        study = Study("compare", tuple(cells.values()), Path(folder if out is None else out))
        with Processes(jobs) as processes:
            found = study.run(source, Listener(), processes=processes)
        return {
            label: tuple(_result(study.place(cells[label, seed]), found[cells[label, seed]], source) for seed in seeds)
            for label in named
        }


@dataclass(frozen=True, repr=False)
class StoredRun(Result):
    """A run that was read from its directory, as far as it has run, with its configuration."""

    config: Config = Config()
    status: Literal["finished", "diverged", "unfinished"] = "finished"


def load_run(path: str | Path, model: nn.Module | None = None) -> StoredRun:
    """The records, configuration and model of a run directory.

    The model is made by its name in the configuration. If feddc does not know that name, give ``model``, a module like
    the one that was trained; without it, everything but ``model`` can be used.
    """
    folder = Path(path)
    what = status(folder)
    if what == "nothing":
        raise RunError(f"{folder} holds no run of feddc" if folder.is_dir() else f"there is no folder {folder}")
    outcome = read_outcome(folder)
    state = "unfinished" if what != "ended" else "diverged" if outcome.error else "finished"
    made = _module(folder, outcome.config, model) if state == "finished" else NoModel(f"{folder} is {state}")
    return StoredRun(outcome.records, made, outcome.error, outcome.config, state)  # type: ignore[arg-type]


class NoModel(nn.Module):
    """Stands for a model that is not there, and says why when it is used."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = why

    def forward(self, *_: Tensor) -> Tensor:
        raise ConfigError(f"there is no model: {self.why}")


def _module(folder: Path, config: Config, model: nn.Module | None) -> nn.Module:
    if model is None:
        info = read_info(folder)
        try:
            check("model" not in info.get("given", {}), f"'{config.model}' was given from Python")
            model = make_model(config.model, tuple(info["shape"]), int(info["classes"]))
        except (KeyError, FedDCError) as error:
            return NoModel(f"{error}; load_run({str(folder)!r}, model=…) takes a module like the one that was trained")
    return _filled(folder, model)


def _filled(folder: Path, model: nn.Module) -> nn.Module:
    """A copy of the module with the trained weights."""
    made = copy.deepcopy(model)
    try:
        load_model(made, folder / "model.safetensors")
    except (RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise RunError(f"{folder / 'model.safetensors'} cannot be loaded into this model: {reason}") from None
    return made.eval()


def _result(folder: Path, outcome: Outcome, source: Objects) -> Result:
    if outcome.error is not None:
        return Result(outcome.records, NoModel(str(outcome.error)), outcome.error)
    return Result(outcome.records, _filled(folder, source.model(outcome.config.seed)))


def _more(arguments: Arguments) -> dict[str, Any]:
    """The arguments that a configuration has no place for."""
    return {key: value for key, value in arguments.items() if key not in (*FIELDS, "training", "precision")}


def _config(
    method: Algorithm, source: Objects, seed: int, arguments: Arguments, target: float, checkpoint: str
) -> Config:
    """The configuration that describes these objects, as far as words can."""
    federation, model = source.federation(seed), source.model(seed)
    check(isinstance(federation, Federation), f"federation must be a feddc.Federation, not {type(federation).__name__}")
    check(isinstance(model, nn.Module), f"model must be a torch.nn.Module, not {type(model).__name__}")
    training = arguments.get("training") or LocalTraining()
    check(isinstance(training, LocalTraining), f"training must be a feddc.LocalTraining, not {type(training).__name__}")
    precision = arguments.get("precision")
    values: dict[str, Any] = vars(training if precision is None else replace(training, precision=precision)) | {
        each.name: arguments[each.name]  # type: ignore[literal-required]
        for each in fields(Options)
        if each.name in arguments
    }
    data, split = federation.origin or (federation.name, None)
    values |= {"data": data, "split": split, "clients": len(federation), "rounds": arguments["rounds"], "seed": seed}
    values |= {"model": getattr(model, "spec", None) or type(model).__name__, "method": method_text(method)}
    plain = {key: value.item() if isinstance(value, np.generic) else value for key, value in values.items()}
    return Config(**plain, target=target, checkpoint=checkpoint)


def method_text(method: Algorithm) -> str:
    """The text that ``make_method`` makes this method from; for a class of one's own its name and its options."""
    name, made = method_name(method), method
    factory: Any = METHODS.get(name)
    if factory is None or (isinstance(factory, type) and factory is not type(method)):
        name, factory = type(method).__name__, type(method)
    elif not isinstance(factory, type):  # FedAdam and the like are FedAvg with a server optimiser
        made = method.server  # type: ignore[attr-defined]
    server, words = getattr(made, "server", None), []
    for key, each in options_of(factory).items():
        value = getattr(made, key, each.default)
        if key != "server" and (value != each.default or key in SHORTHANDS):
            words.append(f"{key}={str(value).lower() if isinstance(value, bool) else value}")
    kind = next((key for key, each in SERVERS.items() if each is type(server)), None)
    if kind is not None and server != options_of(factory)["server"].default:
        words.append(f"server={kind}")
        words += [f"server_{key}={getattr(server, key)}" for key in options_of(type(server))]
    return ":".join([name, *words])
