"""FedDC with a model of your own: any torch module that turns a batch of samples into class scores."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import feddc


class TwoBranches(nn.Module):
    """A small convolution beside a linear shortcut, for 8×8 grey images."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, classes))
        self.shortcut = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.look(x.view(-1, 1, 8, 8)) + self.shortcut(x)
        return out


def main(rounds: int = 20) -> None:
    federation = feddc.load("digits", clients=20, split="dirichlet:0.1")
    torch.manual_seed(0)  # the initial weights
    model = TwoBranches(federation.classes)
    training = feddc.LocalTraining(epochs=5, batch_size=10)
    for method in (feddc.FedAvg(), feddc.FedDC(alpha=0.1)):
        result = feddc.train(method, model, federation, rounds=rounds, participation=0.3, training=training)
        print(f"{type(method).__name__}: best accuracy {result.best_accuracy:.1%} in {rounds} rounds")


if __name__ == "__main__":
    main()
