"""FedDC's local training as a plain PyTorch program writes it: step by step what the authors' published code does.

Every client has a model copy, an optimiser, a scheduler and a DataLoader over samples that Python fetches one by one,
as tensors, images to be augmented as arrays; labels are floats that the loop turns into whole numbers. In every step
the parameters are put together one by one, the penalty and the gradient correction are terms of the loss, so that
autograd goes through every parameter twice more, and the loss is read.
"""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from .workloads import Workload

ALPHA = 0.1


class Samples(Dataset[tuple[Any, Tensor]]):
    """One client's samples, each augmented when it is fetched."""

    def __init__(self, x: Tensor, y: Tensor, augment: bool) -> None:
        self.x, self.y, self.augment = x.numpy() if augment else x.clone(), y.float(), augment

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[Any, Tensor]:
        sample: Any = self.x[i]
        if self.augment:
            if np.random.rand() > 0.5:
                sample = np.flip(sample, axis=2).copy()
            if np.random.rand() > 0.5:
                channels, height, width = sample.shape
                padded = np.zeros((channels, height + 8, width + 8)).astype(np.float32)
                padded[:, 4:-4, 4:-4] = sample
                top, left = np.random.randint(9, size=2)
                sample = padded[:, top : top + height, left : left + width]
            # To height, width, channels and back, as torchvision's ToTensor wants and does.
            sample = torch.from_numpy(np.moveaxis(sample, 0, -1)).permute(2, 0, 1).contiguous()
        return sample, self.y[i]


def seconds_per_step(workload: Workload, clients: int, threads: int, bare: bool = False) -> float:
    """Train so many clients on so many threads; ``bare`` is FedAvg's loop, without anything that could be left out."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    began, steps = time.perf_counter(), 0
    for client in range(clients):
        steps += (bare_client if bare else train_client)(workload, client)
    torch.set_num_threads(before)
    return (time.perf_counter() - began) / steps


def train_client(workload: Workload, client: int) -> int:
    training, federation = workload.training, workload.federation
    model = copy.deepcopy(workload.model)
    start = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    drift, variate = torch.zeros_like(start), torch.zeros_like(start)
    optimizer = torch.optim.SGD(model.parameters(), lr=training.lr, weight_decay=training.weight_decay)
    x, y = federation.client_samples(client)
    loader = DataLoader(Samples(x, y, federation.augment is not None), batch_size=training.batch_size, shuffle=True)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=1)
    model.train()
    steps, total = 0, 0.0
    for _ in range(training.epochs):
        for batch, labels in loader:
            loss = F.cross_entropy(model(batch), labels.reshape(-1).long(), reduction="sum") / len(labels)
            params: Tensor | None = None
            for p in model.parameters():
                params = p.reshape(-1) if params is None else torch.cat((params, p.reshape(-1)), 0)
            assert params is not None
            penalty = torch.sum((params - (start - drift)) * (params - (start - drift)))
            loss = loss + ALPHA / 2 * penalty + torch.sum(params * variate)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            if training.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip_norm)
            optimizer.step()
            total += loss.item() * len(labels)
            steps += 1
        scheduler.step()
    return steps


def bare_client(workload: Workload, client: int) -> int:
    """The shortest loop that trains: batches cut from tensors, forward, backward, clip, step."""
    training, model = workload.training, copy.deepcopy(workload.model).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=training.lr, weight_decay=training.weight_decay)
    x, y = workload.federation.client_samples(client)
    steps = 0
    for _ in range(training.epochs):
        for batch in torch.split(torch.randperm(len(y)), training.batch_size or len(y)):
            optimizer.zero_grad()
            torch.autograd.backward(F.cross_entropy(model(x[batch]), y[batch]))
            if training.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip_norm)
            optimizer.step()
            steps += 1
    return steps
