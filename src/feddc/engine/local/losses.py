"""Local losses of a method's own, and the models that they look at: the same for one client and for many in rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ...data.inputs import Inputs
from ...errors import ConfigError
from ...models import Buffers, FlatModel
from ...options import Precision
from ...tasks import Task
from ...types import LossBatch, Seen, Vector
from ..evaluation import output_of
from .precision import autocast


class LocalLoss(Protocol):
    """What ``algorithm.local_loss`` is, for a method that has one: one number per sample, of which the mean is taken.

    It must be made of tensor operations throughout, so that clients can be trained in rows.
    """

    def __call__(self, batch: LossBatch) -> Tensor: ...


@dataclass(frozen=True)
class OwnLoss:
    """A method's own local loss and what it looks at besides the output of the model that is trained."""

    loss: LocalLoss
    received: bool
    """The global model of the round."""
    features: bool
    """Every model's features."""


def own_loss(algorithm: Any) -> OwnLoss | None:
    """A method's own local loss, if it has one."""
    loss = getattr(algorithm, "local_loss", None)
    wanted = (bool(getattr(algorithm, name, False)) for name in ("needs_reference", "needs_features"))
    return None if loss is None else OwnLoss(loss, *wanted)


def look(module: nn.Module, x: Inputs, features: bool, run: Callable[[nn.Module, Inputs], Any] = output_of) -> Seen:
    """What the module makes of a batch. Its features are what its last linear layer is given."""
    if not features:
        return Seen(run(module, x))
    taken: list[Tensor] = []
    hook = last_linear(module).register_forward_pre_hook(lambda _, given: taken.append(given[0]))
    try:
        output = run(module, x)
    finally:
        hook.remove()
    return Seen(output, taken[-1].flatten(1))


def last_linear(module: nn.Module) -> nn.Module:
    """The linear layer that was added last, whose inputs are taken as the model's features."""
    layers = [each for each in module.modules() if isinstance(each, nn.Linear)]
    if not layers:
        raise ConfigError("the method looks at features, the inputs of the last nn.Linear, and the model has none")
    return layers[-1]


def as_type(seen: Seen, dtype: torch.dtype) -> Seen:
    """The same as numbers of this type, where they are tensors."""
    return Seen(*(each.to(dtype) if isinstance(each, Tensor) else each for each in seen))


def client_loss(
    own: OwnLoss,
    model: FlatModel,
    task: Task,
    counts: Tensor,
    received: tuple[Vector, Buffers],
    previous: Vector | None,
    precision: Precision,
) -> Callable[[Inputs, Tensor], Tensor]:
    """The mean loss of a batch (x, y) of one client, whose samples have these ``counts``."""
    others = (received[0] if own.received else None, previous)
    still = [None if each is None else _still(model.module, each, received[1]) for each in others]
    dtype, device = model.params.dtype, model.params.device

    def loss(x: Inputs, y: Tensor) -> Tensor:
        with autocast(precision, device):
            mine = as_type(look(model.module, x, own.features), dtype)
        with torch.no_grad():
            beside = [None if each is None else look(each, x, own.features) for each in still]
        batch = LossBatch(
            losses=task.losses,
            target=y,
            own=mine,
            counts=counts,
            received=beside[0],
            previous=beside[1],
            real=torch.ones(len(y), dtype=dtype, device=device),
        )
        return own.loss(batch).mean()

    return loss


def _still(module: nn.Module, params: Vector, buffers: Buffers) -> nn.Module:
    """A copy of the module with these parameters, to be looked at only."""
    model = FlatModel(module)
    model.load(params, buffers)
    return model.module.eval()
