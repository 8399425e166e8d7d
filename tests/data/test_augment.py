"""Flip and crop: each image is one of its 2 × 82 variants, and the generator alone says which."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from feddc.data.augment import flip_and_crop


def test_every_image_is_flipped_or_shifted_or_neither() -> None:
    batch = torch.rand(60, 2, 6, 5) + 1
    result = flip_and_crop(batch, np.random.default_rng(0))
    assert result.shape == batch.shape
    flipped = shifted = 0
    for image, found in zip(batch, result, strict=True):
        variants = {
            (flip, top, left): F.pad(image.flip(2) if flip else image, [4] * 4)[:, top : top + 6, left : left + 5]
            for flip in (False, True)
            for top in range(9)
            for left in range(9)
        }
        matches = [key for key, variant in variants.items() if torch.equal(variant, found)]
        assert matches
        flipped += matches[0][0]
        shifted += matches[0][1:] != (4, 4)
    assert 15 < flipped < 45
    assert 15 < shifted < 45


def test_the_generator_decides_and_the_batch_is_not_changed() -> None:
    batch = torch.rand(9, 3, 8, 8)
    kept = batch.clone()
    first, second = (flip_and_crop(batch, np.random.default_rng(1)) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(batch, kept)


def test_every_shift_is_drawn() -> None:
    """An image with one bright pixel shows where the window was."""
    batch = torch.zeros(4000, 1, 9, 9)
    batch[:, :, 4, 4] = 1
    result = flip_and_crop(batch, np.random.default_rng(0))
    found = {tuple(divmod(int(image.argmax()), 9)) for image in result}
    assert found == {(row, column) for row in range(9) for column in range(9)}
