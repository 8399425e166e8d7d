"""What a job is expected to cost, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import feddc
from feddc.engine import cost
from feddc.engine.local import batches
from feddc.engine.local.batches import client_batches
from feddc.engine.local.kernel import Job


def job(module: nn.Module, shape: tuple[int, ...], fixed: int | None = None, **training: int | None) -> Job:
    x, y = torch.zeros(60, *shape), torch.arange(60) % 3
    federation = feddc.Federation.from_arrays(x, y, sizes=[10, 20, 30])  # 20 on average
    return Job(module, federation, feddc.LocalTraining(**training), 0, fixed)  # type: ignore[arg-type]


def test_products_are_counted() -> None:
    dense = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    assert cost.forward_flops(job(dense, (6,))) == 2 * (6 * 8 + 8 + 8 * 3 + 3)  # biases count: parameters used once
    assert cost.forward_flops(job(nn.Sequential(nn.Linear(6, 1), nn.Linear(1, 3)), (6,))) == 2 * (6 + 1 + 3 + 3)
    convolution = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(64, 3))
    assert cost.forward_flops(job(convolution, (1, 6, 6))) == 2 * (4 * 4 * 4 * 9 + 64 * 3)


def test_a_step_is_three_passes_over_its_batch() -> None:
    linear, one = nn.Linear(6, 3), 2 * (6 * 3 + 3)
    assert cost.step_flops(job(linear, (6,), batch_size=5)) == 3 * one * 5
    assert cost.step_flops(job(linear, (6,), batch_size=50)) == 3 * one * 20
    assert cost.step_flops(job(linear, (6,), batch_size=None)) == 3 * one * 20


def test_seconds_grow_with_steps_and_rows() -> None:
    ten = job(nn.Linear(6, 3), (6,), 10, batch_size=5)
    flops = cost.step_flops(ten)
    assert cost.client_seconds(ten) == pytest.approx(10 * (150e-6 + flops / 40e9))
    assert cost.rows_seconds(ten, 7) == pytest.approx(10 * (25e-6 + 7 * (1e-6 + flops / 40e9)))
    by_epochs = job(nn.Linear(6, 3), (6,), batch_size=5, epochs=2)
    assert cost.client_seconds(by_epochs) == pytest.approx(2 * 4 * (150e-6 + flops / 40e9))


def test_images_have_their_channels_last_where_the_model_takes_that() -> None:
    convolution = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(64, 3))
    assert job(convolution, (1, 6, 6)).memory_format is torch.channels_last
    assert job(nn.Sequential(nn.Flatten(), nn.Linear(36, 3)), (1, 6, 6)).memory_format is torch.contiguous_format
    assert job(nn.Linear(6, 3), (6,)).memory_format is torch.contiguous_format

    class Viewing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(2, 4, 3), nn.Linear(64, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.last(self.first(x).view(len(x), -1))
            return out

    assert job(Viewing(), (2, 6, 6)).memory_format is torch.contiguous_format

    class OneByOne(nn.Module):
        """A convolution that makes the picture out of rows itself."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(1, 4, 3), nn.Linear(64, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.last(self.first(x.unflatten(1, (1, 6, 6))).flatten(1))
            return out

    assert job(OneByOne(), (36,)).memory_format is torch.contiguous_format


def test_batches_have_the_layout_of_their_job() -> None:
    convolution = job(nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten(), nn.Linear(64, 3)), (2, 6, 6), batch_size=5)
    x, _ = next(iter(client_batches(convolution, 1, 0, torch.float32)))
    assert x.shape == (5, 2, 6, 6)
    assert x.is_contiguous(memory_format=torch.channels_last)
    flat = job(nn.Sequential(nn.Flatten(), nn.Linear(72, 3)), (2, 6, 6), batch_size=5)
    x, _ = next(iter(client_batches(flat, 1, 0, torch.float32)))
    assert x.is_contiguous()


@pytest.mark.parametrize("augment", [None, lambda batch, _: batch + 1])
def test_bytes_become_the_same_floats_all_at_once_or_a_batch_at_a_time(
    augment: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = job(nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten(), nn.Linear(64, 3)), (2, 6, 6), batch_size=5)
    x = torch.arange(60 * 72).view(60, 2, 6, 6).to(torch.uint8)
    whole = replace(whole, federation=replace(whole.federation, x=x, augment=augment, pixels=lambda some: some / 255))
    at_once = [each for each, _ in client_batches(whole, 1, 1, torch.float32)]
    monkeypatch.setattr(batches, "LARGE", 1)
    later = [each for each, _ in client_batches(whole, 1, 1, torch.float32)]
    assert all(map(torch.equal, at_once, later))
    wanted = x[whole.federation.clients[1]].double().mean() / 255 + (augment is not None)
    assert float(torch.cat(later[:4]).double().mean()) == pytest.approx(float(wanted))
