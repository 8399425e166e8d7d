"""What happens when worker processes, their parent, or the user's code fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import feddc
from feddc.engine.executors import InProcess, Workers, choose
from feddc.engine.executors.pool import _fate
from feddc.engine.local.kernel import Job, Start
from feddc.models import FlatModel
from feddc.options import Compute
from feddc.types import Correction
from tests.processes import alive, gone_within

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")

SLOW = """
import feddc, numpy as np, torch
from torch import nn
x = np.zeros((40, 400), dtype=np.float32)
federation = feddc.Federation.from_arrays(x, np.arange(40) % 4, clients=4)
model = nn.Sequential(nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 4))
simulation = feddc.Simulation(
    feddc.FedAvg(), model, federation, rounds=5, executor="workers", workers=2,
    training=feddc.LocalTraining(epochs=1_000_000),
)
print("ready", flush=True)
list(simulation.run())
"""


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def job(module: nn.Module, x: np.ndarray, epochs: int = 1) -> Job:  # type: ignore[type-arg]
    federation = feddc.Federation.from_arrays(x, np.arange(len(x)) % 4, sizes=[len(x) // 4] * 4)
    return Job(module, federation, feddc.LocalTraining(epochs=epochs), 0, None)


def start(module: nn.Module) -> Start:
    model = FlatModel(module)
    return Start(2, model.params, model.buffers())


def test_a_killed_worker_stops_the_run_with_one_sentence_and_leaves_nobody() -> None:
    before = children(os.getpid())
    module = nn.Linear(400, 4)
    executor = Workers(job(module, np.zeros((40, 400)), epochs=1_000_000), 2)
    pids = [pid for pid in children(os.getpid()) if pid not in before]
    assert len(pids) == 2
    threading.Timer(0.3, os.kill, (pids[0], signal.SIGKILL)).start()
    with pytest.raises(
        feddc.WorkerError, match=r"^worker process \d+ was killed by SIGKILL while it trained client \d in round 2; "
    ):
        list(executor.train([0, 1, 2, 3], start(module), lambda _: Correction()))
    assert not any(map(alive, pids))


@pytest.fixture
def slow_run() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    yield process
    process.kill()  # a test that fails leaves nobody either


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_its_parent(slow_run: subprocess.Popen[bytes], sign: signal.Signals) -> None:
    pids = children(slow_run.pid)
    assert len(pids) == 2
    slow_run.send_signal(sign)
    assert gone_within(15, [slow_run.pid, *pids])
    _, stderr = slow_run.communicate()
    assert stderr.count(b"Traceback") == (1 if sign == signal.SIGINT else 0)


def test_an_idle_worker_leaves_quietly_when_its_parent_is_killed() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW.replace("list(simulation.run())", "import time; time.sleep(60)")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    pids = children(process.pid)
    process.kill()
    assert gone_within(15, [process.pid, *pids])
    assert process.communicate()[1] == b""


def test_an_exception_of_the_users_code_is_reported() -> None:
    x = np.arange(40)[:, None]  # the later clients have words that the embedding does not know
    module = nn.Sequential(nn.Embedding(11, 4), nn.Flatten())
    executor = Workers(job(module, x), 2)
    with pytest.raises(feddc.WorkerError, match="failed while it trained client 1 in round 2: IndexError: ") as error:
        list(executor.train([0, 1], start(module), lambda _: Correction()))
    assert "Traceback" in error.value.__notes__[0]


def test_a_worker_computes_on_one_thread() -> None:
    class Counting(nn.Linear):
        def forward(self, _: torch.Tensor) -> torch.Tensor:
            raise RuntimeError(f"on {torch.get_num_threads()} threads")

    module = Counting(3, 4)
    executor = Workers(job(module, np.zeros((4, 3))), 1)
    with pytest.raises(feddc.WorkerError, match="RuntimeError: on 1 threads"):
        list(executor.train([0], start(module), lambda _: Correction()))


def test_errors_of_our_own_keep_their_class() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    executor = Workers(job(module, np.zeros((4, 3))), 2)
    with pytest.raises(feddc.DataError, match="BatchNorm"):
        list(executor.train([0], start(module), lambda _: Correction()))


def test_a_model_that_cannot_be_sent_runs_in_process() -> None:
    class Unsendable:
        def __deepcopy__(self, memo: object) -> Unsendable:
            return self

        def __reduce__(self) -> str:
            raise TypeError("it holds a connection")

    model = nn.Linear(3, 4)
    model.connection = Unsendable()  # type: ignore[assignment]
    local = job(model, np.zeros((4, 3)))
    choice = choose(local, rounds=10**9, cohort=4, compute=Compute(workers=2))
    assert isinstance(choice.executor, InProcess)
    assert choice.reason.startswith(
        "in-process, because the model or the data cannot be sent to worker processes: it holds"
    )
    with pytest.raises(feddc.WorkerError, match="cannot be sent"):
        Workers(local, 2)


def test_a_script_needs_no_main_guard_even_with_its_own_model_class(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from torch import nn\nimport feddc\n"
        "class Net(nn.Linear): pass\n"
        "federation = feddc.load('digits', clients=4)\n"
        "for model in nn.Linear(64, 10), Net(64, 10):\n"
        "    options = {'rounds': 1, 'executor': 'workers', 'workers': 2}\n"
        "    simulation = feddc.Simulation(feddc.FedAvg(), model, federation, **options)\n"
        "    list(simulation.run())\n"
        "    print(simulation.executor_reason)\n"
    )
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == b"2 worker processes, as asked\n" * 2, done.stderr


def test_what_became_of_a_worker() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert _fate(process, 0.01) == "no longer answers"
        process.kill()
        assert _fate(process) == "was killed by SIGKILL"
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"]) as process:
        assert _fate(process, 60) == "ended with exit code 3"
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        assert _fate(process, 60) == "ended with exit code 0"
