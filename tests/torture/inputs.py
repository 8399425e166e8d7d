"""Configurations of every kind, valid, invalid and weird: each starts a run, or ends in a sentence and exit code 2."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, given, settings, strategies as st

from feddc.algorithms import METHODS
from feddc.cli import main
from feddc.engine.executors import InProcess
from feddc.study.config import FIELDS, SHORTHANDS


def words(text: str) -> list[str]:
    return text.split()


NUMBERS = ["", " ", "9" * 40]
NUMBERS += words("0 1 2 3 7 -1 -0 0.1 0.5 1.5 1e-3 1e30 1e-300 1e400 nan inf -inf none None true x 1_0 0x10 ٣ ½")
NUMBERS += words("1000000 2147483648 18446744073709551616 1e-12")
METHOD_WORDS = words(
    "FedDC feddc: feddc:alpha feddc:alpha= feddc:0.1 feddc:server= fedavg:server_lr=x feddc:form=other : é"
)
METHOD_WORDS += words(
    "fedprox:mu=-1 scaffold:server=adam:server_beta1=2 fedadam:lr=0 feddc:penalty=maybe feddc:alpha=1:alpha=2"
)
METHOD_WORDS += words("feddc:alpha=1e400 fedavg:server_lr=1e300 fedadam:tau=1e-300 feddc:server=yogi:server_lr=nan")
DATA_WORDS = words(
    "synthetic:gamma1=x synthetic:samples=0 mnist cifar10 digits:1 images:/nowhere csv:none.csv : tiny-imagenet"
)
DATA_WORDS += words(
    "synthetic:samples=99999999999 synthetic:gamma2=1e30 synthetic:gamma1=1e308 csv images mnist:sample=true"
)
SPLIT_WORDS = words(
    "dirichlet:1e-9 dirichlet:1e9 dirichlet:1e300 dirichlet:nan pathological:0 pathological:99 shards:0 shards:99999"
)
SPLIT_WORDS += words(
    "iid+unbalanced:99 iid+unbalanced:1e30 + iid+ +unbalanced:1 iid+iid dirichlet:0.3+unbalanced:-1 dirichlet"
)
MODEL_WORDS = words(
    "fcn:0 fcn:-1 fcn:x fcn:8x8 linear:1 cnn resnet18 fcn:999999999999 fcn:1180591620717411303424 fcn: mlp"
)
# What somebody might write, and should not; where a key is not here, a number.
WORDS: dict[str, list[str]] = {
    "method": METHOD_WORDS,
    "data": DATA_WORDS,
    "split": [*SPLIT_WORDS, "none", "natural"],
    "model": [*MODEL_WORDS, "resnet18:weights=none.pt"],
    "executor": ["threads", "", "Auto", "Workers"],
    "workers": ["0", "-1", "x", "9" * 30],
    "device": ["cuda", "cuda:9", "cpu:0", "meta", "tpu", "mps", "", "none"],
    "on_bad_update": ["ignore", "", "Stop"],
    "checkpoint": ["0", "0min", "-1", "1e3", "0.5min", "min", "", "never", "9" * 30],
}
_COUNTS, _SHARES, _SIZES = ["1", "2", "7"], ["0.1", "0.5", "1"], ["0.1", "0.5", "1e-3"]
VALID: dict[str, list[str]] = {
    "method": [*METHODS, "feddc:alpha=0.1:form=paper", "feddc:server=yogi:server_lr=0.01"],
    "data": ["digits", "synthetic", "synthetic:gamma1=1"],
    "split": ["iid", "dirichlet:0.3", "pathological:2", "shards:2", "iid+unbalanced:0.3"],
    "model": ["fcn", "fcn:8", "fcn:8:8", "linear"],
    "executor": ["auto", "in-process", "vectorised", "workers"],
    "device": ["auto", "cpu"],
    "workers": ["none", "1", "2"],
    "on_bad_update": ["stop", "reject"],
    "checkpoint": ["auto", "off", "10", "5min"],
    "cohort_size": ["1"],
    "diagnostics": ["true", "false"],
    **dict.fromkeys(("clients", "rounds", "epochs", "batch_size", "evaluate_every", "seed"), _COUNTS),
    **dict.fromkeys(("participation", "lr_decay", "target", "stop_at"), _SHARES),
    **dict.fromkeys(("lr", "weight_decay", "clip_norm", "alpha", "mu", "dropout"), _SIZES),
}
TOML_WORDS = words("""0 1 -1 0.5 1e30 nan inf true "x"")
TOML_WORDS += words(""none" "2" [1] ["a"] {a=1} 1979-05-27 'iid' "feddc" "digits" """)
TOML_VALUES = st.sampled_from([*TOML_WORDS, "9" * 40, "", '"""'])
KEYS = [*FIELDS, *SHORTHANDS]


def weird(key: str) -> st.SearchStrategy[str]:
    """A value that is probably wrong for this option."""
    usual = st.sampled_from(WORDS.get(key, NUMBERS))
    return st.one_of(usual, usual, usual, st.sampled_from(NUMBERS), st.text(max_size=6))


def values(key: str) -> st.SearchStrategy[str]:
    """A value of either kind."""
    return st.one_of(*[st.sampled_from(VALID.get(key, NUMBERS))] * 4, weird(key))


@st.composite
def arguments(draw: st.DrawFn) -> tuple[list[str], str | None]:
    """A command, and the text of a configuration file if it has one. Not too much of it is wrong at once."""
    command = draw(st.sampled_from(["run", "run", "run", "compare", "sweep"]))
    keys = st.lists(st.sampled_from(KEYS), max_size=4, unique=True)
    options = {key: draw(st.sampled_from(VALID.get(key, NUMBERS))) for key in draw(keys)}
    options |= {key: draw(weird(key)) for key in draw(keys)[:2]}
    args = [command]
    for key, value in options.items():
        args += [f"--{key.replace('_', '-')}", value]
    if command == "compare":
        args += ["--methods", ",".join(draw(st.lists(values("method"), max_size=3)))]
    if command == "sweep":
        for key in draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=2)):
            args += ["--over", f"{key}={','.join(draw(st.lists(values(key), max_size=3)))}"]
    text = None
    if draw(st.integers(0, 3)) == 0:
        pairs = draw(st.lists(st.tuples(st.sampled_from([*KEYS, "methods", "ronds", "a b"]), TOML_VALUES), max_size=4))
        text = "\n".join(f"{key} = {value}" for key, value in pairs)
    return args, text


def names() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


class StartedError(Exception):
    """The run has been set up and would begin now."""


def attempt(case: tuple[list[str], str | None]) -> str:
    """Try it; what came of it. Raises AssertionError if it was neither a start nor a sentence."""
    args, text = case
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory(prefix="feddc-inputs-") as name, contextlib.chdir(name):
        if text is not None:
            Path("c.toml").write_text(text)
            args = [*args, "--config", "c.toml"]
        before = names()
        args = [*args, "--out", "out", "--data-dir", "nowhere"]
        started = mock.Mock(side_effect=StartedError)
        targets = ("study.execute", "study.seconds_a_round")
        with contextlib.ExitStack() as stack:
            # In place of processes, which take seconds to start.
            stack.enter_context(mock.patch("feddc.engine.executors.choose.Workers", lambda job, _: InProcess(job)))
            for target in targets:
                stack.enter_context(mock.patch(f"feddc.study.{target}", started))
            stack.enter_context(contextlib.redirect_stdout(out))
            stack.enter_context(contextlib.redirect_stderr(err))
            try:
                main(args)
            except StartedError:
                return "started"
            except SystemExit as ended:
                code = ended.code
        assert code == 2, (case, code, err.getvalue())
        sentence = err.getvalue()
        assert sentence.startswith("feddc: "), (case, sentence)
        assert sentence.count("\n") == 1, (case, sentence)
        assert len(sentence) > 15, (case, sentence)
        assert names() == before, (case, names())
    return "refused"


def try_inputs(count: int, seed: int | None = None) -> Counter[str]:
    """Try so many; how many started and how many were refused."""
    tally: Counter[str] = Counter()

    def check(case: Any) -> None:
        tally[attempt(case)] += 1

    quiet = settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    run = quiet(given(arguments())(check))
    if seed is not None:
        from hypothesis import seed as seeded

        run = seeded(seed)(run)
    run()
    return tally
