"""Seconds per local step of fedjax's FedAvg with its jit backend; run by the interpreter of ``peers.md``, not by ours.

fedjax 0.0.17 was written for an older jax: what jax has since removed from its top level is put back first.
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise

import jax
import numpy as np

for _name in ("tree_map", "tree_leaves", "tree_flatten", "tree_unflatten"):
    if not hasattr(jax, _name):
        setattr(jax, _name, getattr(jax.tree_util, _name))
if not hasattr(jax.random, "KeyArray"):
    jax.random.KeyArray = jax.Array

import fedjax  # noqa: E402
import jax.numpy as jnp  # noqa: E402


def main(features: int, classes: int, clients: int, samples: int, batch: int, epochs: int, *hidden: int) -> None:
    rng = np.random.default_rng(0)
    sizes = [features, *hidden, classes]

    def logits(params, x):
        for i, (weight, bias) in enumerate(params):
            x = x @ weight + bias
            x = jax.nn.relu(x) if i < len(params) - 1 else x
        return x

    def loss(params, batch, _rng):
        scores = jax.nn.log_softmax(logits(params, batch["x"]))
        return -jnp.mean(jnp.take_along_axis(scores, batch["y"][:, None], axis=1))

    params = [
        (jnp.asarray(rng.standard_normal((a, b), dtype=np.float32) / np.sqrt(a)), jnp.zeros(b))
        for a, b in pairwise(sizes)
    ]
    shuffle = fedjax.ShuffleRepeatBatchHParams(batch_size=batch, num_epochs=epochs, drop_remainder=False)
    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        jax.grad(loss), fedjax.optimizers.sgd(0.1), fedjax.optimizers.sgd(1.0), shuffle
    )
    cohort = []
    for i in range(clients):
        x = rng.standard_normal((samples, features), dtype=np.float32)
        y = rng.integers(classes, size=samples).astype(np.int32)
        cohort.append((b"%d" % i, fedjax.ClientDataset({"x": x, "y": y}), jax.random.PRNGKey(i)))
    state = algorithm.init(params)
    state, _ = algorithm.apply(state, cohort)  # compiles
    jax.block_until_ready(state.params)
    began = time.perf_counter()
    state, _ = algorithm.apply(state, cohort)
    jax.block_until_ready(state.params)
    print((time.perf_counter() - began) / (clients * epochs * -(-samples // batch)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
