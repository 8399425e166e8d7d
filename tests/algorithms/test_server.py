"""Server optimisers against the formulas of Reddi et al., Algorithm 2, and hyper-parameters that make no sense."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

import feddc
from feddc.algorithms import make_method
from feddc.algorithms.base import DeltaUpload
from feddc.types import Mean
from tests.algorithms.play import cohort

UPDATES = [torch.tensor([0.5, -2.0, 0.0]), torch.tensor([-0.1, 1.0, 0.2]), torch.tensor([0.3, 0.3, -0.4])]
SECOND: dict[str, Callable[[float, float], float]] = {
    "Adam": lambda v, d: 0.99 * v + 0.01 * d * d,
    "Yogi": lambda v, d: v - 0.01 * d * d * math.copysign(1.0, v - d * d) * (v != d * d),
    "Adagrad": lambda v, d: v + d * d,
}


@pytest.mark.parametrize("name", SECOND)
def test_adaptive_steps_follow_the_paper(name: str) -> None:
    beta1 = 0.0 if name == "Adagrad" else 0.9
    optimiser = getattr(feddc, name)(lr=0.1, tau=1e-2)
    model = torch.zeros(3)
    state = optimiser.init(model)
    x, m, v = [0.0] * 3, [0.0] * 3, [1e-4] * 3
    for update in UPDATES:
        model, state = optimiser.step(model, update, state, Mean(DeltaUpload(update)), cohort())
        for j, d in enumerate(update.tolist()):
            m[j] = beta1 * m[j] + (1 - beta1) * d
            v[j] = SECOND[name](v[j], d)
            x[j] += 0.1 * m[j] / (math.sqrt(v[j]) + 1e-2)
    torch.testing.assert_close(model, torch.tensor(x))


def test_sgd_with_momentum() -> None:
    optimiser = feddc.SGD(lr=0.5, momentum=0.9)
    model, state = torch.zeros(3), optimiser.init(torch.zeros(3))
    for update in UPDATES[:2]:
        model, state = optimiser.step(model, update, state, Mean(DeltaUpload(update)), cohort())
    torch.testing.assert_close(model, 0.5 * UPDATES[0] + 0.5 * (0.9 * UPDATES[0] + UPDATES[1]))


@pytest.mark.parametrize(
    "bad",
    [
        lambda: feddc.FedDC(alpha=-0.1),
        lambda: feddc.FedDC(alpha=math.nan),
        lambda: feddc.FedDC(alpha=math.inf),
        lambda: feddc.FedDC(alpha="0.1"),
        lambda: feddc.FedDC(form="text"),
        lambda: feddc.FedDC(steps="mean"),
        lambda: feddc.Scaffold(form="text"),
        lambda: feddc.FedDyn(alpha=-1),
        lambda: feddc.FedProx(mu=-1e-9),
        lambda: feddc.FedAdam(lr=0),
        lambda: feddc.FedYogi(beta2=1.0),
        lambda: feddc.FedAdagrad(tau=0),
        lambda: feddc.SGD(momentum=1),
        lambda: feddc.LocalTraining(epochs=0),
        lambda: feddc.LocalTraining(batch_size=0),
        lambda: feddc.LocalTraining(lr=0),
        lambda: feddc.LocalTraining(clip_norm=-1),
        lambda: feddc.LocalTraining(epochs=1.5),
        lambda: make_method("feddc:alpah=0.1"),
        lambda: make_method("feddc:server=adamm"),
        lambda: make_method("fedadam:server=adam"),
        lambda: make_method("fedavg:0.1"),
        lambda: make_method("scafold"),
    ],
)
def test_bad_hyper_parameters_are_refused_when_the_object_is_made(bad: Callable[[], object]) -> None:
    with pytest.raises(feddc.ConfigError):
        bad()


def test_method_text_with_a_server() -> None:
    assert make_method("feddc:alpha=0.01:server=yogi:server_lr=0.02") == feddc.FedDC(
        alpha=0.01, server=feddc.Yogi(lr=0.02)
    )
    assert make_method("fedavg:server_lr=0.5:server_momentum=0.9") == feddc.FedAvg(feddc.SGD(0.5, 0.9))
    assert make_method("feddc:0.3:paper") == feddc.FedDC(alpha=0.3, form="paper")
