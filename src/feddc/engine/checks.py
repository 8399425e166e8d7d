"""What a simulation refuses before it begins: what is no method, and a model that does not fit the data."""

from __future__ import annotations

import copy
import inspect

import torch
from torch import nn

from ..algorithms import Algorithm
from ..data import Federation
from ..data.inputs import ready, shapes
from ..errors import ConfigError, check, first_line
from .evaluation import output_of


def check_method(algorithm: Algorithm) -> None:
    """Refuse what is no method, or has a server optimiser that is none."""
    good = hasattr(algorithm, "aggregate") and not inspect.isclass(algorithm)
    check(good, f"algorithm must be a method object, its class called with its options, not {algorithm!r}")
    server = getattr(algorithm, "server", None)
    good = server is None or (hasattr(server, "step") and not inspect.isclass(server))
    check(good, f"server must be a server optimiser, such as feddc.Yogi(lr=0.01), not {server!r}")


@torch.no_grad()
def check_fits(model: nn.Module, federation: Federation) -> None:
    """Refuse a model that cannot take the data's samples, or whose output the task cannot take."""
    check(isinstance(model, nn.Module), f"model must be a torch.nn.Module, not {type(model).__name__}")
    sized = not any(nn.parameter.is_lazy(p) for p in model.parameters())
    check(sized, "the model has lazy layers, whose size is not known yet: run one batch through it first")
    probe = copy.deepcopy(model).eval()
    x, y = federation.first(2)
    kind = next((p.dtype for p in probe.parameters()), torch.float32)
    try:
        out = output_of(probe, ready(x, kind))
    except Exception as error:  # whatever the user's module raises, it does not fit
        raise ConfigError(f"the model does not accept samples of shape {shapes(x)}: {first_line(error)}") from error
    federation.task.check_output(out, y, federation.classes)
