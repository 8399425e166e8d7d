"""The methods. To add one: write its file, add its line to METHODS; the contract tests then run on it."""

from __future__ import annotations

from functools import cache
from typing import Any

from .. import specs
from ..errors import check, unknown
from .adabest import AdaBest
from .base import Algorithm, evaluated, steadier
from .combinations import FedAdagrad, FedAdam, FedExP, FedGamma, FedSAM, FedSpeed, FedYogi, MoFedSAM
from .fedacg import FedACG
from .fedavg import FedAvg
from .fedcm import FedCM
from .feddc import FedDC
from .feddecorr import FedDecorr
from .feddyn import FedDyn
from .fedinit import FedInit
from .fedlc import FedLC
from .fedlesam import FedLESAM
from .fednova import FedNova
from .fedntd import FedNTD
from .fedprox import FedProx
from .fedsmoo import FedSMOO
from .moon import MOON
from .scaffold import Scaffold
from .server import SGD, Adagrad, Adam, ExP, ServerOptimizer, Yogi

METHODS: specs.Registry = {
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "scaffold": Scaffold,
    "feddyn": FedDyn,
    "feddc": FedDC,
    "fednova": FedNova,
    "fedcm": FedCM,
    "fedacg": FedACG,
    "adabest": AdaBest,
    "fedinit": FedInit,
    "fedlesam": FedLESAM,
    "fedlc": FedLC,
    "fedntd": FedNTD,
    "moon": MOON,
    "feddecorr": FedDecorr,
    "fedsam": FedSAM,
    "mofedsam": MoFedSAM,
    "fedspeed": FedSpeed,
    "fedgamma": FedGamma,
    "fedsmoo": FedSMOO,
    "fedexp": FedExP,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "fedadagrad": FedAdagrad,
}
SERVERS: specs.Registry = {"sgd": SGD, "adam": Adam, "yogi": Yogi, "adagrad": Adagrad, "exp": ExP}

__all__ = [
    "METHODS",
    "SERVERS",
    "Algorithm",
    "ServerOptimizer",
    "display_name",
    "evaluated",
    "make_method",
    "method_name",
    "steadier",
]


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
    """The registered name of a method object, or its class name in lower case.

    FedAvg with Adam's server is fedadam, FedDyn with sharpness-aware steps fedspeed: what was registered first with the
    same class, the same kind of server optimiser, and with or without such steps.
    """
    return _names().get(_kind(method), type(method).__name__.lower())


@cache
def _names() -> dict[tuple[Any, ...], str]:
    return {_kind(factory()): name for name, factory in reversed(METHODS.items())}  # type: ignore[call-overload]


def _kind(method: Any) -> tuple[Any, ...]:
    return type(method), type(getattr(method, "server", None)), getattr(method, "sam", 0.0) > 0


def display_name(name: str) -> str:
    """A method's name as people write it, FedDC for feddc: its ``title``, or the name of its class or function.

    A name that no registry knows is shown without the file or module that it comes from.
    """
    factory = METHODS.get(name)
    if factory is None:
        return specs.Spec.parse(name).label
    return str(getattr(factory, "title", factory.__name__))
