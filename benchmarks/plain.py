"""FedDC's local training as a plain PyTorch program writes it, and as the authors' does.

Every client has a model copy, an optimiser and a DataLoader over samples that Python fetches one by one, as tensors
(images to be augmented as arrays, with labels as floats, which the loop turns into whole numbers); the parameters are
put together one by one in every step, and the penalty and the gradient correction are terms of the loss, so that
autograd goes through every parameter twice more.
"""

from __future__ import annotations

import copy
import random
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
        self.x, self.y, self.augment = x.numpy() if augment else x, y.float(), augment

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[Any, Tensor]:
        sample = self.x[i]
        if self.augment:
            if random.random() < 0.5:
                sample = np.flip(sample, axis=2)
            if random.random() < 0.5:
                _, height, width = sample.shape
                padded = np.pad(sample, ((0, 0), (4, 4), (4, 4)))
                top, left = random.randint(0, 8), random.randint(0, 8)
                sample = padded[:, top : top + height, left : left + width]
            sample = np.ascontiguousarray(sample)
        return sample, self.y[i]


def seconds_per_step(workload: Workload, clients: int, threads: int) -> float:
    """Train so many clients on so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    began, steps = time.perf_counter(), 0
    for client in range(clients):
        steps += train_client(workload, client)
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
    model.train()
    steps = 0
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
            steps += 1
    return steps
