"""A federation: samples, which client holds which, and what a model is judged on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError, check, check_count, check_number
from ..tasks import Classification, NextToken, Segmentation, Task, as_task
from .arrays import InputsAndTargets, aligned, check_alike, materialise, samples_of
from .augment import Augment, check_augment
from .blocks import Block, Of, cut_blocks
from .clients import Clients, divided, drawn, held_apart, listed, runs, sample_weights, together
from .inputs import Inputs, cut, each, take, tensors
from .lazy import TARGET, Datasets
from .partition import Indices
from .preparation import Preparation
from .stored import Pixels, as_floats


@dataclass(frozen=True)
class Lazy:
    """Samples that are read when they are needed, and how many processes read ahead."""

    train: Datasets
    test: Datasets | None
    readers: int


@dataclass(frozen=True)
class Federation:
    """Clients with their samples. Make one with ``from_arrays``, ``from_dataset`` or ``feddc.load``.

    ``x`` (n, …) and ``y`` (n, …) hold all training samples; ``clients[i]`` are the rows of client i. ``test`` is what
    the global model is evaluated on, or None. ``classes`` is how many outputs a model needs: classes, or for other
    tasks numbers, labels or symbols. ``name`` says what it is, for records and reports. ``augment`` changes a batch of
    training samples at random, with the generator that it is given (see ``feddc.data.augment``). ``task`` is what is
    learned.
    """

    x: Inputs
    y: Tensor
    clients: Sequence[Tensor]
    test: InputsAndTargets | None
    classes: int
    name: str = "arrays"
    augment: Augment | None = None
    task: Task = Classification()
    held: Sequence[Tensor] | None = None
    """The rows that each client keeps for judging the model and never trains on; None without any."""
    validation: Tensor | None = None
    """The rows that are set aside for choosing hyper-parameters; None without any."""
    pixels: Pixels | None = None
    """What makes floats of the bytes in ``x``; None where they are taken as they are."""
    preparation: Preparation | None = None
    """What was done to the samples, so that it can be done to new ones; None where nothing is known."""
    lazy: Lazy | None = None
    """Where samples are read while training; ``x`` and ``y`` are then empty."""
    origin: tuple[str, str | None] | None = None
    """The name and the split that ``feddc.load`` made it from, by which reports compare it with others."""

    @classmethod
    def from_arrays(
        cls,
        x: Any,
        y: Any,
        *,
        sizes: Sequence[int] | None = None,
        clients: Sequence[Any] | Mapping[int, Any] | int | None = None,
        split: str = "iid",
        test: tuple[Any, Any] | None = None,
        classes: int | None = None,
        seed: int = 0,
        name: str = "arrays",
        task: Task = Classification(),
        augment: Augment | None = None,
        holdout: float | Sequence[Any] = 0.0,
        validation: float = 0.0,
    ) -> Federation:
        """A federation from arrays or tensors.

        Say who holds what in one of three ways: ``sizes`` (consecutive runs of samples), ``clients=[index arrays]`` (or
        a dict of them by client number, as flwr-datasets' partitioners have it), or a number of ``clients`` and a
        ``split`` such as ``"dirichlet:0.3"``. ``y`` holds class numbers from 0, or what ``task`` takes. The numbers in
        ``x`` are taken as they are: scale images to about 0..1 yourself. ``augment`` changes a batch of training
        samples at random, with the generator that it is given. ``holdout`` and ``validation`` as in ``hold_out``; or
        ``holdout`` is a list of index arrays, one for each client.
        """
        task = as_task(task)
        train = samples_of(x, y, "training", task)
        held_out = None if test is None else aligned(*samples_of(*test, "test", task))
        found = max(task.outputs(train[1]), task.outputs(held_out[1]) if held_out else 0)
        if classes is not None and classes < found:
            raise DataError(f"labels go up to {found - 1}, which is outside the {classes} classes 0..{classes - 1}")
        check((sizes is None) != (clients is None), "give either sizes= or clients=, to say which client holds what")
        if sizes is not None:
            rows = runs(np.asarray(sizes), len(train[1]))
        elif isinstance(clients, int | np.integer):
            rows = drawn(split, train[1].numpy(), int(clients), seed)
        else:
            rows = listed(clients, len(train[1]))
        if held_out:
            check_alike(held_out[0], train[0])
        whole = cls(*train, rows, held_out, classes or found, name, None, task).augmented(augment)
        if isinstance(holdout, int | float):
            return whole.hold_out(holdout, validation, seed=seed)
        return replace(whole, held=held_apart(holdout, rows, len(train[1]))).hold_out(0, validation)

    @classmethod
    def from_dataset(cls, dataset: Any, *, test: Any = None, target: str = TARGET, **options: Any) -> Federation:
        """A federation from one map-style dataset of (sample, target), read once into memory.

        Options as for ``from_arrays``. A dataset with random transforms is refused, since reading it once would freeze
        them: ``from_datasets`` reads while training, and ``augment=`` changes batches of samples in memory.
        """
        held_out = None if test is None else materialise(test, target, "test")
        return cls.from_arrays(*materialise(dataset, target, "training"), test=held_out, **options)

    @classmethod
    def from_datasets(
        cls,
        datasets: Sequence[Any],
        *,
        test: Any = None,
        task: Task = Classification(),
        classes: int | None = None,
        target: str = TARGET,
        holdout: float = 0.0,
        validation: float = 0.0,
        augment: Augment | None = None,
        readers: int = 0,
        seed: int = 0,
        name: str = "datasets",
    ) -> Federation:
        """A federation of map-style datasets, one for each client, read while it trains and never kept.

        A dataset gives (sample, target) pairs, or dicts in which ``target`` names the target, as Hugging Face's do.
        Random transforms are drawn anew in every epoch, by the simulation's seed. ``readers`` processes of each process
        that trains read batches ahead. ``test`` is a dataset too. ``classes`` is needed where the datasets do not say.
        """
        task = as_task(task)
        check_count("readers", readers, 0)
        if hasattr(datasets, "__next__") or not isinstance(datasets, Sequence) or not len(datasets):
            raise DataError(f"datasets must be a list with a dataset for each client, not a {type(datasets).__name__}")
        train = Datasets.of(datasets, task, "training", target)
        tested = None if test is None else Datasets.of([test], task, "test", target)
        x, y = train.read(range(min(2, len(train))), (0,))
        if classes is None:
            classes = train.classes()
        if classes is None:
            if isinstance(task, Classification | NextToken | Segmentation):
                raise DataError("the datasets do not say how many classes there are: give classes=")
            classes = task.outputs(y)
        empty = each(lambda part: part[:0], x), y[:0]
        rows = Clients(np.arange(len(train)), np.array(train.sizes))
        whole = cls(*empty, rows, None, classes, name, None, task, lazy=Lazy(train, tested, readers))
        return whole.augmented(augment).hold_out(holdout, validation, seed=seed)

    def __len__(self) -> int:
        """The number of clients."""
        return len(self.clients)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(tensors(self.x)[0].shape[1:])

    def hold_out(self, holdout: float = 0.0, validation: float = 0.0, *, seed: int = 0) -> Federation:
        """Keep the share ``holdout`` of every client's samples for judging the model on that client's own data, and set
        the share ``validation`` of every client's aside for choosing hyper-parameters. Neither is trained on.

        A client keeps at least one sample of each kind that is asked for, if it has one to spare.
        """
        check_number("holdout", holdout, 0, 0.9)
        check_number("validation", validation, 0, 0.9)
        if not holdout and not validation:
            return self
        check(holdout + validation <= 0.9, "holdout and validation together must leave a tenth of the samples to train")
        check(not holdout or self.held is None, "the clients hold samples out already: leave holdout out")
        parts = [divided(rows.numpy(), (holdout, validation), seed, i) for i, rows in enumerate(self.clients)]
        train, held, aside = ([part[kind] for part in parts] for kind in range(3))
        return replace(
            self,
            clients=together(train),
            held=together(held) if holdout else self.held,
            validation=torch.from_numpy(np.concatenate(aside)) if validation else self.validation,
        )

    def augmented(self, augment: Augment | None) -> Federation:
        """With training batches that ``augment(batch, generator)`` changes at random; None leaves them as they are.

        DataError if it cannot take a batch of these samples, or does not give one sample for each.
        """
        if augment is not None:
            check(callable(augment), f"augment must be a function of (batch, generator), not {augment!r}")
            check_augment(augment, *self.first(2))
        return replace(self, augment=augment)

    def with_task(self, task: Task) -> Federation:
        """The same samples, with something else to be learned; DataError if the targets do not fit it."""
        check(self.lazy is None, "datasets that are read while training have their task: give it to from_datasets")
        y = as_task(task).targets(self.y, "training")
        test = None if self.test is None else (self.test[0], task.targets(self.test[1], "test"))
        outputs = max(self.classes if y.dtype == self.y.dtype else 0, task.outputs(y))
        return replace(self, y=y, test=test, task=task, classes=outputs)

    @property
    def sizes(self) -> Indices:
        """Samples per client."""
        if isinstance(self.clients, Clients):
            return self.clients.sizes
        return np.array([len(each) for each in self.clients], dtype=np.int64)

    @property
    def weights(self) -> Tensor:
        """ω_i = n_i / mean(n), the column (N, 1)."""
        return sample_weights(self.sizes)

    def client_samples(self, client: int) -> InputsAndTargets:
        """The samples of one client, as contiguous tensors."""
        rows = self.clients[client]
        if self.lazy is not None:
            return self.lazy.train.read(rows, (0, client))
        return self.inputs(take(self.x, rows)), self.y.index_select(0, rows)

    def inputs(self, x: Inputs) -> Inputs:
        """Stored samples as a model takes them: bytes as floats."""
        if self.pixels is None:
            return each(as_floats, x)
        return each(lambda part: self.pixels(part) if part.dtype == torch.uint8 else part, x)  # type: ignore[misc]

    @property
    def test_samples(self) -> int:
        """How many samples there are to test on."""
        if self.lazy is not None:
            return 0 if self.lazy.test is None else len(self.lazy.test)
        return 0 if self.test is None else len(self.test[1])

    def first(self, count: int) -> InputsAndTargets:
        """The first few training samples, whoever holds them: what a model is tried on."""
        if self.lazy is not None:
            return self.lazy.train.read(range(min(count, len(self.lazy.train))), (0,))
        return self.inputs(cut(self.x, slice(count))), self.y[:count]

    def blocks(self, of: Of, client: int = 0) -> list[Block]:
        """The cut of what there is to evaluate on; see ``cut_blocks``."""
        if of == "test":
            samples = self.test_samples
        elif of == "validation":
            samples = 0 if self.validation is None else len(self.validation)
        else:
            samples = 0 if self.held is None else len(self.held[client])
        return cut_blocks(of, samples, client)

    def label_counts(self) -> Indices:
        """How many samples of each class each client holds, (clients, classes); where a target is no class, how many
        samples, (clients, 1)."""
        return np.stack([self.label_counts_of(client) for client in range(len(self))])

    def label_counts_of(self, client: int) -> Indices:
        """One client's row of ``label_counts``."""
        rows = self.clients[client]
        if self.lazy is not None or self.y.ndim != 1 or self.y.is_floating_point():
            return np.array([len(rows)])
        return np.bincount(self.y[rows].cpu().numpy(), minlength=self.classes)
