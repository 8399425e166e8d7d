"""Augmentation of training images, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import DataError, first_line
from .inputs import Inputs, shapes, tensors

Augment: TypeAlias = Callable[[Any, np.random.Generator], Any]
PADDING = 4


def flip_and_crop(batch: Tensor, rng: np.random.Generator) -> Tensor:
    """Flip each image (B, C, H, W) left to right with probability 1/2, and with probability 1/2 shift it.

    A shift takes a random H×W part of the image with 4 rows and columns of zeros added on each side.
    """
    samples, _, height, width = batch.shape
    flipped = torch.from_numpy(rng.random(samples) < 0.5).to(batch.device)
    shifted = rng.random((samples, 1)) < 0.5
    corner = np.where(shifted, rng.integers(0, 2 * PADDING + 1, size=(samples, 2)), PADDING)  # (B, 2); PADDING: stay
    batch = torch.where(flipped.view(-1, 1, 1, 1), batch.flip(3), batch)
    windows = F.pad(batch, [PADDING] * 4).unfold(2, height, 1).unfold(3, width, 1)  # (B, C, 9, 9, H, W), a view
    top, left = torch.from_numpy(corner.T).to(batch.device)
    return windows[torch.arange(samples, device=batch.device), :, top, left]


def check_augment(augment: Augment, x: Inputs, y: Tensor) -> None:
    """Refuse a function that cannot take a batch of these samples, or does not give one sample for each."""
    try:
        lengths = {len(part) for part in tensors(augment(x, np.random.default_rng(0)))}
    except Exception as error:  # whatever the function raises, the two do not fit
        raise DataError(f"augment cannot take a batch of samples of shape {shapes(x)}: {first_line(error)}") from error
    if lengths != {len(y)}:
        raise DataError("augment must give a batch with as many samples as it was given")
