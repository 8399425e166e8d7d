"""The data and the model: the part that you change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import nn

import feddc


def load_client(node: Mapping[str, Any]) -> tuple[Any, Any]:
    """This client's samples: x of shape (n, …) and y of shape (n,), class numbers from 0. YOUR OWN DATA GOES HERE.

    ``node`` is what this SuperNode was started with. With --node-config 'partition-id=0 data="scans.npz"' the file
    scans.npz is read, which has the arrays x and y; return arrays or tensors from anywhere else in the same way. The
    function runs once, in this client's own process, and what it returns does not leave it.
    """
    if "data" in node:
        with np.load(str(node["data"])) as arrays:
            return arrays["x"], arrays["y"]
    # Until there is data: scikit-learn's digits, divided unevenly among all clients.
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
