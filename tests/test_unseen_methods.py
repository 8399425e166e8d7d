"""Files of trajectories that nobody has seen: other sizes, models and settings, written by a double-precision loop.

The loop is autograd and vectors, one client after the other, with none of the package's code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy, log_softmax

from tests.test_methods import cases, follow

SETTINGS: dict[str, dict[str, Any]] = {
    "mlp9": {"model": "mlp9", "clients": 5, "rounds": 4, "lr_decay": 0.9, "weight_decay": 0.0, "clip_norm": None},
    "linear": {"model": "linear", "clients": 3, "rounds": 3, "lr_decay": 1.0, "weight_decay": 0.02, "clip_norm": 0.3},
}
ROWS: dict[str, dict[str, Any]] = {
    "fedsam": {"rho": 0.3, "weighted": True},
    "fedcm": {"alpha": 0.35, "weighted": False},
    "fedinit": {"beta": 0.4, "weighted": False},
    "fedacg": {"momentum": 0.6, "beta": 0.05, "prox": 0.1, "weighted": False},
    "fedsmoo": {"rho": 0.2, "lamb": 0.3, "weighted": False},
    "fedntd": {"beta": 0.7, "tau": 1.5, "weighted": False, "momentum": 0.5},
    "moon": {"mu": 2.0, "tau": 0.8, "weighted": True, "momentum": 0.4},
}


def net(model: str, dim: int, classes: int) -> nn.Sequential:
    if model == "linear":
        return nn.Sequential(nn.Identity(), nn.Linear(dim, classes)).double()
    hidden = int(model[3:])
    return nn.Sequential(nn.Sequential(nn.Linear(dim, hidden), nn.ReLU()), nn.Linear(hidden, classes)).double()


class Loop:
    """One method on one federation, in double precision."""

    def __init__(self, name: str, row: dict[str, Any], data: dict[str, Any], meta: dict[str, Any]) -> None:
        self.name, self.row, self.meta = name, row, meta
        self.module = net(meta["model"], meta["dim"], meta["classes"])
        ends = np.cumsum(data["sizes"])
        self.x, self.y = (np.split(data[key], ends[:-1]) for key in ("x", "y"))
        self.sizes = torch.from_numpy(data["sizes"]).double()
        self.w = torch.from_numpy(data["init"]).double()
        n = meta["clients"]
        self.m, self.s = torch.zeros_like(self.w), torch.zeros_like(self.w)
        self.h, self.mu = ([torch.zeros_like(self.w) for _ in range(n)] for _ in range(2))
        self.last = [self.w.clone() for _ in range(n)]

    def see(self, at: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        nn.utils.vector_to_parameters(at, self.module.parameters())
        features = self.module[0](x)
        return features, self.module[1](features)

    def gradient(self, at: Tensor, client: int, start: Tensor) -> Tensor:
        x, y = torch.from_numpy(self.x[client]).double(), torch.from_numpy(self.y[client])
        with torch.no_grad():
            (f_w, z_w), (f_prev, _) = self.see(start, x), self.see(self.last[client], x)
        f, z = self.see(at, x)
        loss = cross_entropy(z, y)
        if self.name == "fedntd":
            keep = ~nn.functional.one_hot(y, z.shape[1]).bool()
            p, q = (log_softmax(each[keep].view(len(y), -1) / self.row["tau"], 1) for each in (z_w, z))
            loss = loss + self.row["beta"] * self.row["tau"] ** 2 * (p.exp() * (p - q)).sum(1).mean()
        if self.name == "moon":
            pair = torch.stack([cosine_similarity(f, f_w), cosine_similarity(f, f_prev)], 1) / self.row["tau"]
            loss = loss + self.row["mu"] * cross_entropy(pair, torch.zeros(len(y), dtype=torch.long))
        return torch.cat([each.flatten() for each in torch.autograd.grad(loss, list(self.module.parameters()))])

    def train(self, client: int, lr: float) -> tuple[Tensor, Tensor]:
        """θ after the local steps, and where they began."""
        row, name, w = self.row, self.name, self.w
        start = w + row["momentum"] * self.m if name == "fedacg" else w
        begin = w + row["beta"] * (w - self.last[client]) if name == "fedinit" else start
        theta, velocity = begin.clone(), torch.zeros_like(w)
        for _ in range(self.meta["local_epochs"]):
            e = torch.zeros_like(w)
            if "rho" in row:
                a = self.gradient(theta, client, start) - self.mu[client] - self.s
                e = row["rho"] * a / a.norm()
            if name == "fedsmoo":
                self.mu[client] = self.mu[client] + e - self.s
            g = self.gradient(theta + e, client, start)
            if name == "fedcm":
                g = row["alpha"] * g + (1 - row["alpha"]) * self.m
            if name == "fedacg":
                g = g + row["prox"] * (theta - start)
            decay = row["weight_decay"]
            if name == "fedsmoo":
                g, decay = g + row["lamb"] * (self.h[client] - w), decay + row["lamb"]
            if row["clip_norm"] is not None:
                g = g * min(1.0, row["clip_norm"] / float(g.norm()))
            velocity = (0 if name == "fedacg" else row.get("momentum", 0)) * velocity + g + decay * theta
            theta = theta - lr * velocity
        return theta, begin

    def round(self, t: int, cohort: np.ndarray) -> Tensor:
        lr = self.row["lr"] * self.row["lr_decay"] ** t
        who = np.flatnonzero(cohort).tolist()
        trained = [self.train(client, lr) for client in who]
        share = self.sizes[who] if self.row["weighted"] else torch.ones(len(who), dtype=torch.float64)
        mean = sum(q * (theta - begin) for q, (theta, begin) in zip(share / share.sum(), trained, strict=True))
        for client, (theta, _) in zip(who, trained, strict=True):
            self.last[client] = theta
            self.h[client] = self.h[client] + theta - self.w
        if self.name == "fedcm":
            self.m = -mean / (self.meta["steps"] * lr)
        if self.name == "fedacg":
            self.m = mean = self.row["momentum"] * self.m + mean
        if self.name == "fedsmoo":
            mean = mean + torch.stack(self.h).mean(0)
            u = torch.stack([self.mu[client] for client in who]).mean(0)
            self.s = self.row["rho"] * u / u.norm()
        self.w = self.w + mean
        return self.w


def write(folder: Path, name: str, **others: Any) -> Path:
    """A file with every method of ``ROWS`` that applies to the model."""
    given = SETTINGS[name]
    rng = np.random.default_rng(7)
    sizes = rng.integers(6, 20, given["clients"])
    meta = {"dim": 4, "classes": 3, "local_epochs": 3, "steps": 3, "full_batch": True, "batch_size": None} | given
    selected = rng.random((given["rounds"], given["clients"])) < 0.6
    selected[:, 1] = True
    y = rng.integers(3, size=sizes.sum())
    x = (rng.normal(size=(len(y), 4)) + y[:, None] * [1, 0, -1, 0.5]).astype(np.float32)
    init = (0.3 * rng.normal(size=sum(p.numel() for p in net(given["model"], 4, 3).parameters()))).astype(np.float32)
    data = {"x": x, "y": y, "sizes": sizes, "init": init, "selected": selected}
    local = {key: given[key] for key in ("lr_decay", "weight_decay", "clip_norm")} | {"lr": 0.15, "role": "main"}
    rows = {key: local | row for key, row in ROWS.items() if key != "moon" or given["model"] != "linear"} | others
    found = {}
    for key, row in rows.items():
        if key in ROWS:
            loop = Loop(key, row, data, meta)
            found[f"{key}/global"] = np.stack([loop.round(t, who).numpy() for t, who in enumerate(selected)])
    file = folder / f"{name}.npz"
    np.savez(file, meta=json.dumps(meta | {"methods": rows}), **data, **found)
    return file


@pytest.mark.parametrize("name", SETTINGS)
def test_files_with_other_settings_are_followed(name: str, tmp_path: Path) -> None:
    file = write(tmp_path, name)
    found = [case.values[1] for case in cases([file])]
    assert found == [key for key in ROWS if key != "moon" or name != "linear"]
    for key in found:
        follow(file, key)


def test_a_wrong_setting_is_noticed(tmp_path: Path) -> None:
    file = write(tmp_path, "mlp9")
    data = dict(np.load(file))
    meta = json.loads(str(data["meta"]))
    meta["methods"]["moon"]["tau"] = 0.7
    np.savez(file, **data | {"meta": json.dumps(meta)})
    with pytest.raises(AssertionError):
        follow(file, "moon")


def test_a_main_row_of_an_unknown_method_fails_and_other_rows_are_left_out(tmp_path: Path) -> None:
    strange = {
        "fednew": {"role": "main"},
        "fednew_other": {"role": "variant"},
        "fedsam_asis": {"role": "do not follow"},
    }
    file = write(tmp_path, "linear", **strange)
    assert [case.values[1] for case in cases([file])][-1] == "fednew"
    with pytest.raises(AssertionError, match="fednew with the role main"):
        follow(file, "fednew")
