"""Local optimisers other than SGD with or without momentum, which the kernel has folded into its step.

Each is begun anew in every round: its moments belong to a path from one global model, and are neither sent nor kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import torch

from ...algorithms import Algorithm, method_name
from ...errors import check
from ...options import LocalTraining
from ...types import LocalResult, Vector


class LocalOptimizer(Protocol):
    """Takes the steps of one client in one round."""

    def step(self, params: Vector, grads: Vector, pull: Vector, decay: float, lr: float) -> None:
        """Move ``params`` along ``grads``, which may be overwritten; ``decay`` · ``pull`` is the weight decay."""
        ...


class Nesterov:
    """v ← ρ v + g, θ ← θ − η (g + ρ v), as torch.optim.SGD(nesterov=True)."""

    def __init__(self, params: Vector, momentum: float) -> None:
        self._momentum, self._velocity = momentum, torch.zeros_like(params)

    def step(self, params: Vector, grads: Vector, pull: Vector, decay: float, lr: float) -> None:
        grads.add_(pull, alpha=decay)
        self._velocity.mul_(self._momentum).add_(grads)
        params.add_(grads.add_(self._velocity, alpha=self._momentum), alpha=-lr)


class LocalAdam:
    """Kingma and Ba, with β = (0.9, 0.999) and ε = 1e-8; ``decoupled`` decays weights as AdamW does."""

    def __init__(self, params: Vector, decoupled: bool) -> None:
        self._decoupled, self._steps = decoupled, 0
        self._mean, self._square = torch.zeros_like(params), torch.zeros_like(params)

    def step(self, params: Vector, grads: Vector, pull: Vector, decay: float, lr: float) -> None:
        if self._decoupled:
            params.add_(pull, alpha=-lr * decay)
        else:
            grads.add_(pull, alpha=decay)
        self._steps += 1
        self._mean.lerp_(grads, 0.1)
        self._square.mul_(0.999).addcmul_(grads, grads, value=0.001)
        spread = self._square.sqrt().div_((1 - 0.999**self._steps) ** 0.5).add_(1e-8)
        params.addcdiv_(self._mean, spread, value=-lr / (1 - 0.9**self._steps))


def local_optimizer(training: LocalTraining, params: Vector) -> LocalOptimizer | None:
    """The optimiser of a client's round; None for SGD with or without momentum."""
    if training.optimizer != "sgd":
        return LocalAdam(params, decoupled=training.optimizer == "adamw")
    return Nesterov(params, training.momentum) if training.nesterov else None


def check_optimizer(algorithm: Algorithm, training: LocalTraining) -> None:
    """Refuse an adaptive optimiser for a method that takes −Δ/(K η) for a gradient: that is true of SGD only.

    No list of methods: a method is asked what it would upload and remember with another learning rate.
    """
    if training.optimizer == "sgd" and not training.nesterov:
        return
    good = training.optimizer == "sgd" or not training.momentum
    check(good, f"{training.optimizer} has its own moments: leave momentum out")
    good = not training.nesterov or training.momentum > 0
    check(good, "nesterov needs momentum: give momentum=0.9, for example")
    name, optimizer = method_name(algorithm), "nesterov" if training.nesterov else training.optimizer
    check(
        not _reads_the_rate(algorithm),
        f"{name} takes a client's update, divided by its steps and learning rate, for a mean gradient, which it is "
        f"with SGD and not with {optimizer}: use optimizer='sgd', or a method without such a variate, such as FedAvg, "
        "FedProx or FedDyn",
    )


def _reads_the_rate(algorithm: Algorithm) -> bool:
    vector = torch.linspace(0.5, 1.5, 4)  # any numbers will do
    sent = algorithm.broadcast(algorithm.init_server(vector))
    client = type(state := algorithm.init_client(vector))(*(field.unsqueeze(0) for field in state))
    weight, one = torch.ones(1, 1), LocalTraining().schedule(1, 5)
    found = []
    for rate in (0.1, 0.05):
        schedule = replace(one, lr=rate, rate=rate)
        local = LocalResult(delta=vector.unsqueeze(0), steps=torch.full((1, 1), 5.0), **vars(schedule))
        upload, after = algorithm.upload(sent, client, local, weight)
        found.append([*upload, *after, *algorithm.weigh(local, weight).values()])
    return any(not torch.equal(a, b) for a, b in zip(*found, strict=True))
