"""The models of the experiments. To add one: write a function of (input shape, classes), add its line to MODELS."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import specs
from ..errors import ConfigError, check, check_count, first_line
from .weights import load_weights

Shape = tuple[int, ...]


def linear(shape: Shape, classes: int, zeros: bool = True) -> nn.Module:
    """Linear or logistic regression, from zeros, or with zeros=false from torch's random weights."""
    layer = nn.Linear(_numel(shape), classes)
    if zeros:
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(nn.Flatten(), layer)


def fcn(shape: Shape, classes: int, widths: tuple[int, ...] = (200, 200)) -> nn.Module:
    """Fully connected with ReLU; the widths of the hidden layers are its options (fcn:200:200)."""
    layers: list[nn.Module] = [nn.Flatten()]
    size = _numel(shape)
    for width in widths:
        check_count("fcn width", width, high=10**6)
        layers += [nn.Linear(size, width), nn.ReLU()]
        size = width
    return nn.Sequential(*layers, nn.Linear(size, classes))


def cnn(shape: Shape, classes: int) -> nn.Module:
    """Two 5×5 convolutions of 64 channels with max-pooling, then 384-192-classes."""
    _check_image("cnn", shape, 16)
    side_after = [((side - 4) // 2 - 4) // 2 for side in shape[1:]]
    # Pooling before ReLU gives the same values as after it, with a quarter of the work.
    return nn.Sequential(
        nn.Conv2d(shape[0], 64, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * side_after[0] * side_after[1], 384),
        nn.ReLU(),
        nn.Linear(384, 192),
        nn.ReLU(),
        nn.Linear(192, classes),
    )


def resnet18(
    shape: Shape, classes: int, norm: Literal["group", "batch"] = "group", weights: str | None = None
) -> nn.Module:
    """ResNet18 with GroupNorm(2), as the authors', or BatchNorm; up to 32 pixels it has the small stem.

    ``weights`` is a file of pre-trained weights as torchvision has them (.safetensors or .pth), which need the large
    stem: colour images of more than 32 pixels. Without it training starts from scratch.
    """
    _check_image("resnet18", shape, 8)
    model = ResNet18(shape[0], classes, norm, small=max(shape[1:]) <= 32)
    if weights is not None:
        load_weights(model, weights, head="fc")
    return model


def lstm(shape: Shape, classes: int, width: int = 100, embedding: int = 8, layers: int = 2) -> nn.Module:
    """Two LSTM layers over embedded symbols, then a dense layer on the last output: the authors' for Shakespeare."""
    check(len(shape) == 1, f"model 'lstm' needs sequences of symbols, but the data has shape {shape}")
    for name, value in (("width", width), ("embedding", embedding), ("layers", layers)):
        check_count(f"lstm {name}", value, high=10**5)
    return NextSymbol(classes, width, embedding, layers)


class NextSymbol(nn.Module):
    """Symbols (B, T) as whole numbers → scores of the next one (B, symbols)."""

    def __init__(self, symbols: int, width: int, embedding: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, embedding)
        self.lstm = nn.LSTM(embedding, width, layers, batch_first=True)
        self.head = nn.Linear(width, symbols)

    def forward(self, x: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.embedding(x.long()))
        out: Tensor = self.head(hidden[:, -1])
        return out


class ResNet18(nn.Module):
    """He et al., "Deep Residual Learning" (CVPR 2016); parameters are named as torchvision names them."""

    def __init__(self, channels: int, classes: int, norm: Literal["group", "batch"], small: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 3 if small else 7, 1 if small else 2, 1 if small else 3, bias=False)
        self.bn1 = _norm(norm, 64)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(ResidualBlock(64, 64, 1, norm), ResidualBlock(64, 64, 1, norm))
        self.layer2 = nn.Sequential(ResidualBlock(64, 128, 2, norm), ResidualBlock(128, 128, 1, norm))
        self.layer3 = nn.Sequential(ResidualBlock(128, 256, 2, norm), ResidualBlock(256, 256, 1, norm))
        self.layer4 = nn.Sequential(ResidualBlock(256, 512, 2, norm), ResidualBlock(512, 512, 1, norm))
        self.fc = nn.Linear(512, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))  # (B, 512, h, w)
        out: Tensor = self.fc(x.mean(dim=(2, 3)))
        return out


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions around a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Literal["group", "batch"]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = _norm(norm, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = _norm(norm, outputs)
        self.downsample: nn.Module | None = None
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), _norm(norm, outputs))

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + shortcut)


def _norm(kind: Literal["group", "batch"], channels: int) -> nn.Module:
    return nn.GroupNorm(2, channels) if kind == "group" else nn.BatchNorm2d(channels)


MODELS: specs.Registry = {"linear": linear, "fcn": fcn, "cnn": cnn, "resnet18": resnet18, "lstm": lstm}


def make_model(text: str, shape: Shape, classes: int, seed: int = 0) -> nn.Module:
    """A model by name, for inputs of ``shape``; the same seed gives the same initial weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            model: nn.Module = specs.make("model", MODELS, text, shape=shape, classes=classes)
        except (RuntimeError, TypeError, MemoryError) as error:  # what torch raises for sizes that it cannot make
            raise ConfigError(f"model '{text}' cannot be made: {first_line(error)}") from error
    object.__setattr__(model, "spec", text)  # what reports call it
    return model


def _check_image(name: str, shape: Shape, least: int) -> None:
    fits = len(shape) == 3 and min(shape[1:]) >= least
    wanted = f"images (channels, height, width) of at least {least}×{least} pixels"
    check(fits, f"model '{name}' needs {wanted}, but the data has shape {shape}")


def _numel(shape: Shape) -> int:
    return int(torch.Size(shape).numel())
