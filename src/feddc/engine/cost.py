"""What a job costs, roughly: floating-point operations and seconds on a core of a plain machine.

The numbers follow from the job alone, never from the machine, so that what is decided by them is the same everywhere.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ..models import FlatModel
from .evaluation import evaluate
from .local.kernel import Job

FLOPS, STEP_SECONDS = 40e9, 150e-6  # of a core, and what a step costs beside its products; give or take a factor of two
ROWS_SECONDS, ROW_SECONDS = 25e-6, 1e-6  # what one step of many clients at once costs beside its products, and each row


def step_flops(job: Job) -> float:
    """Floating-point operations of one local step."""
    samples = float(job.federation.sizes.mean())
    return 3 * forward_flops(job) * min(job.training.batch_size or samples, samples)


def client_seconds(job: Job) -> float:
    """What the training of an average client takes on one core, one client after another."""
    return _steps(job) * (STEP_SECONDS + step_flops(job) / FLOPS)


def rows_seconds(job: Job, rows: float) -> float:
    """What the training of so many average clients takes on one core, all of them at once."""
    return _steps(job) * (ROWS_SECONDS + rows * (ROW_SECONDS + step_flops(job) / FLOPS))


def _steps(job: Job) -> int:
    return job.fixed_steps if isinstance(job.fixed_steps, int) else job.training.nominal_steps(job.federation.sizes)


def forward_flops(job: Job) -> int:
    """Floating-point operations of the model's matrix products and convolutions on one sample."""
    model = FlatModel(job.module)
    found = [2 * model.params.numel()]

    def count(layer: nn.Module, _: Any, out: Any) -> None:
        weight = getattr(layer, "weight", None)
        if isinstance(weight, Tensor) and isinstance(out, Tensor) and weight.ndim >= 2:
            found.append(2 * out.numel() * weight[0].numel())

    # torch.utils.flop_counter would be exact, and takes a second to import.
    for layer in model.module.modules():
        layer.register_forward_hook(count)
    evaluate(model, *job.federation.first(1), job.federation.task)
    return max(found[0], sum(found[1:]))
