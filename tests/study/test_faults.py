"""What happens to a run when disks fill up, workers die, processes collide, clocks jump and files rot."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from feddc.engine import Record
from feddc.engine.executors import Parts, Trained
from feddc.engine.local.kernel import Start
from feddc.errors import RunError, StoppedError, StorageError, WorkerError
from feddc.storage import atomic as disk
from feddc.storage.lock import Lock
from feddc.study.checkpoint import Segment, _compacted
from feddc.study.interval import Interval
from feddc.study.rundir import RunDir, read_records
from feddc.study.runinfo import ready
from feddc.study.runner import execute
from tests.engine.test_workers_faults import children
from tests.study.test_resume import SHARED, CrashError, config, interrupted, result, run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of the default configuration that nothing happened to."""
    out = tmp_path_factory.mktemp("whole") / "run"
    run(config(), out)
    return out


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting needs root")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def test_a_full_disk_for_real(small_disk: Path, tmp_path: Path) -> None:
    chosen = config(checkpoint="1", rounds=60)
    run(chosen, tmp_path / "whole")
    ballast = small_disk / "ballast"

    def fill(record: Record) -> None:
        if record.round == 5:
            with ballast.open("wb", buffering=0) as file:
                try:
                    while file.write(bytes(1024)):
                        pass
                except OSError as error:
                    assert error.errno == errno.ENOSPC  # noqa: PT017

    said: list[str] = []
    with pytest.raises(StorageError, match=r"No space left on device .*`feddc resume .*/disk/run` continues"):
        execute(chosen, SHARED.simulation(chosen), small_disk / "run", fill, say=said.append)
    assert "no checkpoint after round 5: No space left on device; the last one is of round 4" in said[0]
    ballast.unlink()
    run(chosen, small_disk / "run")
    assert result(small_disk / "run") == result(tmp_path / "whole")


def test_a_read_only_directory_for_real(small_disk: Path) -> None:
    interrupted(config(), small_disk / "run", 3)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(RunError, match=r"cannot write to .*/run: Read-only file system"):
        run(config(), small_disk / "run")
    with pytest.raises(RunError, match=r"cannot write to .*/new: Read-only file system"):
        run(config(), small_disk / "new")


@pytest.mark.parametrize("call", range(1, 7))
def test_a_disk_that_fails_in_any_step_of_a_checkpoint(
    call: int, tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint before still counts, and the run goes on."""
    fsync, write, calls = os.fsync, RunDir.checkpoint, 0

    def failing(file: int) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(file)

    def checkpoint(self: RunDir, *args: Any, **options: Any) -> None:
        with monkeypatch.context() as patch:
            if self.simulation.round == 4:
                patch.setattr(os, "fsync", failing)
            write(self, *args, **options)

    said: list[str] = []
    monkeypatch.setattr(RunDir, "checkpoint", checkpoint)
    with pytest.raises(CrashError):
        run(config(), tmp_path / "run", crash_after=5, said=said)
    assert calls >= call
    assert "no checkpoint after round 4: No space left on device; the last one is of round 2" in said[0]
    assert not list((tmp_path / "run" / "checkpoint").glob("*.part"))
    monkeypatch.undo()
    run(config(), tmp_path / "run", said=said)
    assert said[-1].endswith("continuing after round 2" if call < 6 else "continuing after round 4")
    assert result(tmp_path / "run") == result(whole)


def test_half_a_record(tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add = RunDir.add

    def half(self: RunDir, record: Record) -> None:
        if record.round == 5:
            os.write(self._records.fileno(), b'{"round": 5, "acc')
            raise OSError(errno.ENOSPC, "No space left on device", "records.jsonl")
        add(self, record)

    with monkeypatch.context() as patch:
        patch.setattr(RunDir, "add", half)
        with pytest.raises(StorageError, match=r"No space left on device \(records.jsonl\)"):
            run(config(), tmp_path / "run")
    run(config(), tmp_path / "run")
    assert result(tmp_path / "run") == result(whole)


def test_a_model_that_cannot_be_written(tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors import SafetensorError

    def full(*_: Any) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    with monkeypatch.context() as patch:
        patch.setattr("feddc.study.rundir.save_model", full)
        with pytest.raises(StorageError, match=r"No space left on device.*feddc resume"):
            run(config(), tmp_path / "run")
    run(config(), tmp_path / "run")
    assert result(tmp_path / "run") == result(whole)


def test_a_killed_worker(tmp_path: Path) -> None:
    chosen = config(executor="workers", workers=2, rounds=4, checkpoint="1")
    before = children(os.getpid())

    def kill(record: Record) -> None:
        if record.round == 2:
            worker = next(pid for pid in children(os.getpid()) if pid not in before)
            os.kill(worker, signal.SIGKILL)

    with pytest.raises(WorkerError, match=r"killed by SIGKILL .*; `feddc resume .*/run` continues"):
        execute(chosen, SHARED.simulation(chosen), tmp_path / "run", kill)
    plain = replace(chosen, executor="in-process", workers=None)
    run(plain, tmp_path / "run")
    run(plain, tmp_path / "whole")
    assert result(tmp_path / "run") == result(tmp_path / "whole")


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_keeps_the_round(
    sign: signal.Signals, tmp_path: Path, whole: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def send(record: Record) -> None:
        if record.round == 3:
            os.kill(os.getpid(), sign)

    def by_default(*_: object) -> None:
        raise AssertionError("the signal reached the handler of before")

    before = signal.signal(sign, by_default)  # these tests may run under nohup, where a hang-up is ignored
    try:
        with pytest.raises(StoppedError, match=r"after round 3: `feddc resume .*/run` continues") as stopped:
            execute(config(checkpoint="off"), SHARED.simulation(config()), tmp_path / "run", send)
        assert signal.getsignal(sign) is by_default
    finally:
        signal.signal(sign, before)
    assert stopped.value.exit_code == 128 + sign
    assert capfd.readouterr().err.startswith("feddc: finishing this round and keeping it")
    said: list[str] = []
    run(config(checkpoint="off"), tmp_path / "run", said=said)
    assert said == [f"{tmp_path / 'run'}: continuing after round 3"]
    assert result(tmp_path / "run") == result(whole)


def test_a_second_signal_leaves_at_once(tmp_path: Path, whole: Path) -> None:
    def send(record: Record) -> None:
        if record.round == 3:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(StoppedError, match="in the middle of a round: `feddc resume") as stopped:
        execute(config(), SHARED.simulation(config()), tmp_path / "run", send)
    assert stopped.value.exit_code == 130
    run(config(), tmp_path / "run")
    assert result(tmp_path / "run") == result(whole)


def test_a_run_that_is_in_use_is_refused(tmp_path: Path, whole: Path) -> None:
    interrupted(config(), tmp_path / "run", 3)
    held = Lock(tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(RunError, match=rf"is in use by process {os.getpid()} on .*: nothing was changed"):
        run(config(), tmp_path / "run")
    assert {path: path.read_bytes() for path in before} == before
    held.release()
    run(config(), tmp_path / "run")
    assert result(tmp_path / "run") == result(whole)


@pytest.mark.parametrize("text", ["process 1 on elsewhere\n", "", "\xff\x00"])
def test_a_lock_file_that_nobody_holds_locks_nobody_out(text: str, tmp_path: Path) -> None:
    """As a killed process, a reboot, or another machine leaves it."""
    interrupted(config(), tmp_path / "run", 3)
    (tmp_path / "run" / "lock").write_text(text, encoding="latin-1")
    run(config(), tmp_path / "run")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "lock").write_text(text, encoding="latin-1")
    (tmp_path / "new" / "config.toml.part").write_text("meth")
    run(config(), tmp_path / "new")


def test_a_file_system_without_locks_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", none)
    run(config(rounds=1), tmp_path / "run")
    assert "file system without locks" in capsys.readouterr().err


def test_a_copied_directory_goes_on_beside_the_original(tmp_path: Path, whole: Path) -> None:
    interrupted(config(), tmp_path / "run", 3)
    held = Lock(tmp_path / "run")  # the original is still running somewhere
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    run(config(), tmp_path / "copy")
    held.release()
    assert result(tmp_path / "copy") == result(whole)


def test_versions_that_differ_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(config(), tmp_path / "run", 3)
    monkeypatch.setattr("torch.__version__", "99.0")
    said: list[str] = []
    run(config(), tmp_path / "run", said=said)
    assert "(here 99.0): the last bits may differ" in said[0]


def test_the_arithmetic_stays_what_it_was(tmp_path: Path) -> None:
    """Whatever "auto" would choose here: executors do not round alike."""
    interrupted(config(executor="in-process"), tmp_path / "run", 3)
    other = config(executor="vectorised")
    with pytest.raises(RunError, match="begun with 'plain' arithmetic"):
        execute(other, SHARED.simulation(other), tmp_path / "run", lambda _: None, resume=True)
    interrupted(config(executor="vectorised"), tmp_path / "rows", 3)
    here, _ = ready(config(executor="auto"), tmp_path / "rows")
    assert (here.executor, here.device) == ("vectorised", "cpu")


def test_a_diverging_run_keeps_its_last_checkpoint(tmp_path: Path) -> None:
    chosen = config(checkpoint="1")
    simulation = SHARED.simulation(chosen)
    train = simulation.executor.train

    def diverging(clients: Any, start: Start, correct: Any) -> Parts:
        for part in train(clients, start, correct):
            yield part if start.round < 4 else Trained(part.params * float("nan"), part.buffers)

    simulation.executor.train = diverging  # type: ignore[method-assign]
    outcome = execute(chosen, simulation, tmp_path / "run", lambda _: None)
    assert outcome.error is not None
    assert "NaN or Inf in round 4; try a smaller learning rate" in str(outcome.error)
    assert outcome.kept == len(outcome.records) == 3
    assert (tmp_path / "run" / "checkpoint" / "manifest-00000003.json").exists()
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_rejections_are_kept_in_the_records(tmp_path: Path) -> None:
    chosen = config(lr=1e30, clip_norm=None, on_bad_update="reject", dropout=0.3, rounds=3)
    run(chosen, tmp_path / "run")
    records = read_records(tmp_path / "run" / "records.jsonl")
    assert sum(len(each.rejected) for each in records) > 0
    assert sum(len(each.dropped) for each in records) > 0
    assert all(not each.participants for each in records)
    assert records[0].rejected[0].reason == "NaN or Inf"


def test_the_interval_goes_by_a_clock_that_nobody_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr("time.time", lambda: -(10**9))  # a jump of decades
    auto, minutes, rounds, off = Interval("auto"), Interval("5min"), Interval("10"), Interval("off")
    assert not auto.due(1, 1000)
    now += 5.1
    assert auto.due(1, 1000)
    assert not auto.due(1, 10**9)  # a large one waits longer
    auto.took(0.5, 1000)  # more than was assumed, which has to be made up for
    now += 26
    assert not auto.due(1, 1000)
    now += 20
    assert auto.due(1, 1000)  # two of 0.5 in 51 seconds are under 2 %
    assert not auto.due(1, 2000)
    assert not minutes.due(1, 0)
    now += 300
    assert minutes.due(1, 0)
    assert rounds.due(10, 0)
    assert not rounds.due(9, 0)
    assert not off.due(10**6, 0)


def test_segments_are_written_anew_when_half_of_them_is_out_of_date() -> None:
    def segment(name: str, *clients: int) -> Segment:
        return Segment(name, "", frozenset(clients))

    old = [segment("a", 1, 2, 3, 4), segment("b", 5, 6), segment("c", 1)]
    assert _compacted(old, frozenset()) == ([], old)
    assert _compacted(old, frozenset({2})) == ([2, 3, 4], old[1:])  # of a, only 3 and 4 count
    assert _compacted(old, frozenset({1})) == ([1], old[:2])
    assert _compacted(old, frozenset({5, 6})) == ([5, 6], [old[0], old[2]])


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.write_whole(tmp_path / "file", "before")

    def failing(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="Input/output"):
        disk.write_whole(tmp_path / "file", "after")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "before"


def test_one_other_digit_in_a_manifest(tmp_path: Path, whole: Path) -> None:
    """Still valid JSON, with files whose checksums are right: only the manifest's own checksum tells."""
    interrupted(config(), tmp_path / "run", 5)
    newest = max((tmp_path / "run" / "checkpoint").glob("manifest-*.json"))
    text = newest.read_text()
    assert '"records": {' in text
    changed = text.replace('"processor": "', '"processor": "x')
    assert changed != text
    newest.write_text(changed)
    said: list[str] = []
    run(config(), tmp_path / "run", said=said)
    assert "its checksum is another" in said[0]
    assert result(tmp_path / "run") == result(whole)
