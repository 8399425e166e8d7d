"""The data and the model: the part that you change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

import feddc
import feddc.flower


def load_client(node: Mapping[str, Any]) -> Any:
    """This site's samples. YOUR OWN DATA GOES HERE.

    ``node`` is the configuration that this site was started with. With --node-config 'partition-id=0
    data="patients.csv"' that table is read: columns of numbers, and the column label with class numbers or names. A
    fifth of the rows is held out to evaluate models on. Leave the numbers unscaled: the sites agree on one scale and on
    the numbers of classes. For other data return arrays x, y or feddc.flower.Samples(x, y, test=(x, y),
    standardise=True). This function runs in the site's own process when a run begins; what it returns never leaves it.
    """
    if "data" in node:
        return feddc.flower.read_table(str(node["data"]))
    # Until there is data: scikit-learn's digits, divided unevenly among all sites.
    federation = feddc.load("digits", clients=int(node["num-partitions"]), split="dirichlet:0.3")
    return federation.client_samples(int(node["partition-id"]))


def load_test() -> tuple[Any, Any]:
    """Samples on which the server evaluates the model; leave ``test=`` out of server.py if it has none."""
    test = feddc.load("digits", clients=1, split="iid").test
    assert test is not None
    return test


def make_model() -> nn.Module:
    """The model, the same on the server and on every client."""
    return feddc.make_model("fcn:100", (64,), 10)
