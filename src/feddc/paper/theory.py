"""The paper's convergence statement, held against a run: L(w⁺) ≤ L(w) − 2p ‖∇L(w)‖², if p > 0.

p falls with the dissimilarity B, the smoothness β, the inexactness γ of the local solutions, and the most negative
curvature β_d. What can be measured along a run are lower bounds of B and β: they are defined as the largest anywhere.
With these, γ = 0 and β_d = 0, the formula gives an upper bound of p. So a negative one says that the condition does not
hold; a positive one would not say that it does.

The theorem and its proof differ: the theorem begins with γ/α where the proof has (1 − γB)/α, and has N where the proof
has C. Both are computed, the theorem's with the γ in 0..1 that suits it best. They differ in L_i too: the appendix
counts the gradient correction among a client's loss. It changes B, so B is measured with and without, and the smaller
one is used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..algorithms.feddc import FedDC
from ..engine import Simulation
from ..errors import ConfigError, check
from ..storage.atomic import write_whole
from ..study.runinfo import commit, reading
from ..types import Vector

POWER_STEPS = 30


@dataclass(frozen=True)
class Estimate:
    """What was measured at the global model after ``round`` rounds, and what the paper's formulas make of it."""

    round: int
    loss: float
    gradient: float
    """‖∇L(w)‖"""
    dissimilarity: float
    """B(w) = √(mean ‖∇L_i(w)‖²) / ‖∇L(w)‖"""
    corrected: float
    """The same with each client's gradient correction added to ∇L_i(w)."""
    smoothness: float
    """The largest curvature at w of the clients looked at: β is at least that."""
    proof: float
    """At most this is the proof's p, with the smaller B."""
    theorem: float
    """At most this is the theorem's p, with the smaller B."""
    needed: float | None
    """α must exceed this for the proof's p to be positive; None where no α does."""
    observed: float
    """(L(w) − L(w⁺)) / (2 ‖∇L(w)‖²): the p that the next round really had."""


def estimates(simulation: Simulation, rounds: Sequence[int], alpha: float, clients: int = 10) -> Iterator[Estimate]:
    """Run the simulation and estimate after each of these rounds (0 is the start); curvature of so many clients."""
    check(list(rounds) == sorted(set(rounds)), "rounds must ascend")
    number, cohort = len(simulation.federation), simulation.cohorts.mean_size
    partial = None if cohort >= number else cohort
    spread = [i * number // min(clients, number) for i in range(min(clients, number))]
    for round in rounds:
        while simulation.round < round:
            simulation.step()
        module = simulation.module().double()
        here = _measured(simulation, module)
        b = min(here.dissimilarity, here.corrected)
        smoothness = max(curvature(simulation, module, client) for client in spread)
        simulation.step()
        after = _mean_loss(simulation, simulation.module().double())
        yield Estimate(
            round,
            here.loss,
            here.gradient,
            here.dissimilarity,
            here.corrected,
            smoothness,
            proof_bound(alpha, smoothness, b, partial),
            theorem_bound(alpha, smoothness, b, cohort, number),
            alpha_needed(smoothness, b, partial),
            (here.loss - after) / (2 * here.gradient**2),
        )


def proof_bound(alpha: float, beta: float, b: float, cohort: float | None) -> float:
    """The proof's p with γ = 0 and ᾱ = α; ``cohort`` is None where everyone takes part, which drops its terms."""
    p = 1 / alpha - beta * b / alpha**2 - beta * b**2 / (2 * alpha**2)
    if cohort is not None:
        p -= b * math.sqrt(2 / cohort) / alpha + beta * b**2 * (2 * math.sqrt(2) + 2) / (alpha**2 * cohort)
    return p


def theorem_bound(alpha: float, beta: float, b: float, cohort: float, clients: int) -> float:
    """The theorem's p with ᾱ = α and the γ in 0..1 for which it is largest: γ/α − a(1 + γ) − c(1 + γ)²."""
    a = b * math.sqrt(2 / clients) / alpha + beta * b / alpha**2
    c = beta * b**2 / alpha**2 * (0.5 + (2 * math.sqrt(2 * cohort) + 2) / clients)
    gamma = min(max((1 / alpha - a) / (2 * c) - 1, 0.0), 1.0)
    return gamma / alpha - a * (1 + gamma) - c * (1 + gamma) ** 2


def alpha_needed(beta: float, b: float, cohort: float | None) -> float | None:
    """Where ``proof_bound`` turns positive as α grows; None where it never does."""
    if cohort is None:
        return beta * (b + b**2 / 2)
    room = 1 - b * math.sqrt(2 / cohort)
    return beta * (b + b**2 / 2 + b**2 * (2 * math.sqrt(2) + 2) / cohort) / room if room > 0 else None


def curvature(simulation: Simulation, module: nn.Module, client: int) -> float:
    """The largest absolute eigenvalue of a client's Hessian, from below, by power iteration."""
    params = [each for each in module.parameters() if each.requires_grad]
    flat = _flat(torch.autograd.grad(_loss(simulation, module, client), params, create_graph=True))
    direction = torch.randn(flat.shape, dtype=flat.dtype, generator=torch.Generator().manual_seed(client))
    value = 0.0
    for _ in range(POWER_STEPS):
        direction = direction / direction.norm()
        product = _flat(torch.autograd.grad(flat @ direction, params, retain_graph=True))
        value, direction = float(product.norm()), product
        if value == 0:
            break
    return value


class _Measured(NamedTuple):
    """What the clients' gradients at one model say: see ``Estimate``."""

    loss: float
    gradient: float
    dissimilarity: float
    corrected: float


def _measured(simulation: Simulation, module: nn.Module) -> _Measured:
    """One client after another, so that no more than two gradients are held."""
    params = [each for each in module.parameters() if each.requires_grad]
    number, total = len(simulation.federation), torch.zeros(())
    loss = square = corrected = 0.0
    for client in range(number):
        here = _loss(simulation, module, client)
        gradient = _flat(torch.autograd.grad(here, params))
        loss += float(here.detach()) / number
        total = total + gradient / number
        square += float(gradient.square().sum()) / number
        corrected += float((gradient + _correction(simulation, client)).square().sum()) / number
    norm = float(total.norm())
    return _Measured(loss, norm, math.sqrt(square) / norm, math.sqrt(corrected) / norm)


def _correction(simulation: Simulation, client: int) -> Vector:
    """What FedDC adds to a client's gradient, apart from the penalty: g/ω_i − g_i."""
    method = simulation.algorithm
    if not isinstance(method, FedDC):
        raise ConfigError("the statement is about FedDC")
    sent, state = method.broadcast(simulation.server), simulation.store.gather([client])
    linear = replace(method, penalty=False).correct(sent, state, simulation.weights[[client]]).linear
    assert linear is not None
    return linear[0].double()


def _mean_loss(simulation: Simulation, module: nn.Module) -> float:
    number = len(simulation.federation)
    with torch.no_grad():
        return sum(float(_loss(simulation, module, client)) for client in range(number)) / number


def _loss(simulation: Simulation, module: nn.Module, client: int) -> Tensor:
    """A client's empirical loss, without weight decay: what the paper calls L_i."""
    federation = simulation.federation
    x, y = federation.client_samples(client)
    inputs = federation.inputs(x)
    if not isinstance(inputs, Tensor):
        raise ConfigError("the estimate needs inputs that are one tensor")
    return federation.task.losses(module(inputs.double()), y).mean()


def _flat(parts: Sequence[Tensor]) -> Vector:
    return torch.cat([each.reshape(-1) for each in parts])


def save(path: Path, about: str, alpha: float, found: Sequence[Estimate]) -> None:
    """Keep estimates, and the commit that made them, in a file that ``load`` reads."""
    content = {"about": about, "alpha": alpha, "commit": commit(), "estimates": [asdict(each) for each in found]}
    write_whole(path, json.dumps(content, indent=1) + "\n")


def load(path: Path) -> tuple[str, float, list[Estimate]]:
    """What ``save`` kept: about what run, its α, the estimates."""
    with reading(path, "is not a file of `feddc theory`"):
        content = json.loads(path.read_text(encoding="utf-8"))
        return str(content["about"]), float(content["alpha"]), [Estimate(**each) for each in content["estimates"]]


def table(about: str, alpha: float, found: Sequence[Estimate]) -> str:
    """The estimates as text."""
    bounds = ["p ≤ (proof)", "p ≤ (theorem)", "p > 0 needs α >"]
    rows = [["round", "loss", "‖∇L‖", "B ≥", "corrected", "β ≥", *bounds, "observed"]]
    for each in found:
        numbers = (each.gradient, each.dissimilarity, each.corrected, each.smoothness, each.proof, each.theorem)
        needed = "no α" if each.needed is None else f"{each.needed:.3g}"
        rows.append(
            [str(each.round), f"{each.loss:.4f}", *(f"{x:.3g}" for x in numbers), needed, f"{each.observed:.3g}"]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([f"{about}, α = {alpha:g}", *lines])
