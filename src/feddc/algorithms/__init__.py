"""The methods. To add one: write its file, add its line to METHODS; the contract tests then run on it."""

from __future__ import annotations

from typing import Any

from .. import specs
from ..errors import check, unknown
from .base import Algorithm
from .fedavg import FedAdagrad, FedAdam, FedAvg, FedYogi
from .feddc import FedDC
from .feddyn import FedDyn
from .fedprox import FedProx
from .scaffold import Scaffold
from .server import SGD, Adagrad, Adam, ServerOptimizer, Yogi

METHODS: specs.Table = {
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "scaffold": Scaffold,
    "feddyn": FedDyn,
    "feddc": FedDC,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "fedadagrad": FedAdagrad,
}
SERVERS: specs.Table = {"sgd": SGD, "adam": Adam, "yogi": Yogi, "adagrad": Adagrad}

__all__ = ["METHODS", "SERVERS", "Algorithm", "ServerOptimizer", "display_name", "make_method", "method_name"]


def make_method(text: str) -> Algorithm:
    """A method from its name and options: ``feddc:alpha=0.1:server=yogi:server_lr=0.01``."""
    spec = specs.Spec.parse(text)
    own = tuple(word for word in spec.words if not word.startswith(("server=", "server_")))
    given = {}
    if len(own) < len(spec.words):
        known = specs.options(specs.lookup("method", METHODS, spec.name))
        if "server" not in known:
            raise unknown(f"option of method '{spec.name}'", "server", known)
        words = dict(word.partition("=")[::2] for word in spec.words if word not in own)
        kind = words.pop("server", "sgd")
        settings = tuple(f"{key.removeprefix('server_')}={value}" for key, value in words.items())
        given["server"] = specs.make("server optimiser", SERVERS, specs.Spec(kind, settings))
    method: Algorithm = specs.make("method", METHODS, specs.Spec(spec.name, own), **given)
    good = hasattr(method, "aggregate") and hasattr(method, "upload")
    check(good, f"'{text}' is not a method: it lacks the functions that feddc.Algorithm has")
    return method


def method_name(method: Algorithm) -> str:
    """The registered name of a method object, or its class name in lower case."""
    server: Any = getattr(method, "server", None)
    adaptive = {Adam: "fedadam", Yogi: "fedyogi", Adagrad: "fedadagrad"}
    if isinstance(method, FedAvg) and type(server) in adaptive:
        return adaptive[type(server)]
    return type(method).__name__.lower()


def display_name(name: str) -> str:
    """A method's name as people write it, FedDC for feddc: its ``title``, or the name of its class or function.

    A name that no registry knows is shown without the file or module that it comes from.
    """
    factory = METHODS.get(name)
    if factory is None:
        return specs.Spec.parse(name).label
    return str(getattr(factory, "title", factory.__name__))
