"""The image data sets of the experiments: files on disk to a federation of standardised float tensors.

Each is refused if images are missing, unless ``sample=true`` says that a part of it is meant.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from ..errors import DataError
from .augment import flip_and_crop
from .federation import Federation
from .fetch.catalogue import CATALOGUE
from .fetch.entries import DataSet
from .fetch.folder import data_folder
from .fetch.present import require
from .formats.idx import StoredImages
from .request import Request
from .stored import Pixels


def mnist(request: Request, sample: bool = False) -> Federation:
    """MNIST, 60000 + 10000 handwritten digits, 28×28 grey."""
    return _federation("mnist", request, sample)


def fashion_mnist(request: Request, sample: bool = False) -> Federation:
    """Fashion-MNIST, 60000 + 10000 articles of clothing, 28×28 grey."""
    return _federation("fashion-mnist", request, sample)


def emnist_l(request: Request, sample: bool = False) -> Federation:
    """EMNIST-L, 48000 + 8000 handwritten letters A to J, 28×28 grey."""
    return _federation("emnist-l", request, sample)


def cifar10(request: Request, sample: bool = False) -> Federation:
    """CIFAR-10, 50000 + 10000 photographs, 3×32×32, 10 classes."""
    return _federation("cifar10", request, sample)


def cifar100(request: Request, sample: bool = False) -> Federation:
    """CIFAR-100, 50000 + 10000 photographs, 3×32×32, 100 classes.

    Its iid split is exactly class-balanced: with five images of a class per client, chance alone would be far from it.
    """
    if request.split in (None, "iid"):
        request = replace(request, split="iid:stratified=true")
    return _federation("cifar100", request, sample)


def tiny_imagenet(request: Request, sample: bool = False) -> Federation:
    """Tiny ImageNet, 100000 + 10000 photographs, 3×64×64, 200 classes.

    For research use only, as ImageNet is. As floats it takes five gigabytes of memory.
    """
    return _federation("tiny-imagenet", request, sample)


def _federation(name: str, request: Request, sample: bool) -> Federation:
    data = CATALOGUE[name]
    found = require(data, data_folder(request.data_dir))
    arrays = found.layout.read(found.paths)
    counts, wanted = (len(arrays.y), len(arrays.test_y)), (data.train, data.test)
    if counts != wanted and not sample:
        raise DataError(
            f"{found.folder} holds {counts[0]} training and {counts[1]} test images of {name}, not {wanted[0]} and "
            f"{wanted[1]}: fetch it again, or write {name}:sample=true to use what is there"
        )
    federation = request.federation(
        arrays.x,
        torch.from_numpy(arrays.y),
        test=(arrays.test_x, torch.from_numpy(arrays.test_y)),
        name=name if counts == wanted else f"{name} (sample)",
        classes=data.classes,
    )
    return replace(federation, pixels=pixels_of(data, arrays), augment=flip_and_crop if data.augment else None)


def pixels_of(data: DataSet, arrays: StoredImages) -> Pixels:
    """The catalogue's mean and deviation, or the training images' own."""
    if data.mean is not None and data.std is not None:
        return Pixels(data.mean, data.std)
    x = torch.tensor(arrays.x, dtype=torch.float32).div_(255)
    return Pixels((float(x.mean()),), (float(x.std(correction=0)),))
