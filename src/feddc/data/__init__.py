"""Data sets by name. To add one: write a function of a Request that returns a Federation, add its line to DATA."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .. import specs
from ..errors import check
from .augment import Augment
from .embedded import digits, synthetic
from .federation import Federation
from .images import cifar10, cifar100, emnist_l, fashion_mnist, mnist, tiny_imagenet
from .natural import heart_disease, mnist_writers, shakespeare
from .own import csv, from_csv, from_image_folder, images
from .partition import SPLITS
from .request import Request

DATA: specs.Registry = {
    "digits": digits,
    "synthetic": synthetic,
    "mnist": mnist,
    "fashion-mnist": fashion_mnist,
    "emnist-l": emnist_l,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "tiny-imagenet": tiny_imagenet,
    "heart-disease": heart_disease,
    "mnist-writers": mnist_writers,
    "shakespeare": shakespeare,
    "images": images,
    "csv": csv,
}

NATURAL = ("heart-disease", "mnist-writers", "shakespeare")
"""Data sets that come with their clients: what a configuration says of their number means nothing."""

__all__ = ["DATA", "NATURAL", "SPLITS", "Federation", "Request", "from_csv", "from_image_folder", "load"]


def load(
    name: str,
    *,
    clients: int = 20,
    split: str | None = None,
    seed: int = 0,
    data_dir: str | Path | None = None,
    augment: Augment | None = None,
) -> Federation:
    """A federation by name: ``load("digits", clients=20, split="dirichlet:0.1", seed=0)``.

    ``split=None`` takes what is natural for the data: iid parts, or the clients that the data comes with.
    ``data_dir`` is the data folder; by default the environment variable FEDDC_DATA, or the user's cache folder.
    ``augment`` changes training batches at random; without it the data set's own augmentation, if it has one, does.
    """
    own = name not in DATA and Path(name).exists() and not name.endswith(".py")
    check(not own, f"'{name}' is a file or folder: give csv:path={name}:label=COLUMN or images:path={name}")
    federation: Federation = specs.make("data set", DATA, name, request=Request(clients, split, seed, data_dir))
    check(isinstance(federation, Federation), f"data set '{name}' must give a feddc.Federation, not {federation!r}")
    found = replace(federation, origin=(name, split))
    return found if augment is None else found.augmented(augment)
