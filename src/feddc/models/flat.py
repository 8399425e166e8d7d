"""A module as one flat vector: the view of a model that methods and engine work on."""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..errors import ConfigError
from ..types import Vector


class Buffers(NamedTuple):
    """A module's buffers: ``floats`` (B,) such as BatchNorm's statistics, ``ints`` (I,) such as its counters."""

    floats: Tensor
    ints: Tensor

    @property
    def nbytes(self) -> int:
        return self.floats.nbytes + self.ints.nbytes


class FlatModel:
    """A copy of a module whose trainable parameters are views of ``params`` and whose gradients are views of ``grads``.

    Writing into ``params`` changes the module, and ``backward`` fills ``grads``: a step of SGD is vector arithmetic.
    The order is that of ``module.parameters()``; frozen parameters (``requires_grad=False``) stay in the module and are
    not part of the vector. A BatchNorm with frozen parameters keeps its statistics, too.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = copy.deepcopy(module)
        trainable = [p for p in self.module.parameters() if p.requires_grad]
        if not trainable:
            raise ConfigError("the model has no trainable parameters")
        kinds = {p.dtype for p in trainable}
        if len(kinds) > 1 or not trainable[0].is_floating_point():
            raise ConfigError(
                f"the model's parameters must share one floating-point type, not {sorted(map(str, kinds))}"
            )
        self.params: Vector = torch.cat([p.detach().reshape(-1) for p in trainable])  # (P,)
        self.grads: Vector = torch.zeros_like(self.params)
        start = 0
        for p in trainable:
            stop = start + p.numel()
            p.data = self.params[start:stop].view_as(p)
            p.grad = self.grads[start:stop].view_as(p)
            start = stop
        norms = [m for m in self.module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        self._frozen = [m for m in norms if m.affine and not any(p.requires_grad for p in m.parameters())]
        still = {id(b) for m in self._frozen for b in m.buffers()}
        buffers = [b for b in self.module.buffers() if id(b) not in still]
        self._floats = [b for b in buffers if b.is_floating_point()]
        self._ints = [b for b in buffers if not b.is_floating_point()]

    def train(self) -> None:
        """Training mode, for all but frozen BatchNorms."""
        self.module.train()
        for norm in self._frozen:
            norm.eval()

    @torch.no_grad()
    def load(self, params: Vector, buffers: Buffers) -> None:
        """Set parameters and buffers in place."""
        self.params.copy_(params)
        _scatter(buffers.floats, self._floats)
        _scatter(buffers.ints, self._ints)

    def buffers(self) -> Buffers:
        """A copy of the buffers as two vectors."""
        return Buffers(_gather(self._floats, self.params.dtype), _gather(self._ints, torch.int64))


def module_with(initial: nn.Module, params: Vector, buffers: Buffers) -> nn.Module:
    """A copy of the user's module with these parameters and buffers."""
    flat = FlatModel(initial)
    flat.load(params, buffers)
    module = copy.deepcopy(initial)
    module.load_state_dict(flat.module.state_dict())
    return module


def _gather(tensors: list[Tensor], dtype: torch.dtype) -> Tensor:
    return torch.cat([torch.zeros(0, dtype=dtype), *(t.detach().reshape(-1).to("cpu", dtype) for t in tensors)])


def _scatter(vector: Tensor, tensors: list[Tensor]) -> None:
    start = 0
    for t in tensors:
        stop = start + t.numel()
        t.copy_(vector[start:stop].view_as(t))
        start = stop
