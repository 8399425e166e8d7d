"""The paper's condition: its formulas by hand, the estimates against exact ones, and the command."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import feddc as feddc_package
from feddc.data import load
from feddc.paper.theory import alpha_needed, curvature, estimates, proof_bound, theorem_bound
from feddc.study.config import resolve, to_toml
from feddc.study.sources import Named
from tests.cli.test_cli import feddc

SMALL = {"data": "synthetic", "method": "feddc", "rounds": 3, "executor": "in-process", "epochs": 1}


def test_the_proofs_p_by_hand() -> None:
    assert proof_bound(2.0, 1.0, 1.0, None) == pytest.approx(0.5 - 0.25 - 0.125)
    assert proof_bound(2.0, 1.0, 1.0, 8.0) == pytest.approx(0.125 - 0.25 - (2 * 2**0.5 + 2) / 32)
    assert alpha_needed(1.0, 1.0, None) == pytest.approx(1.5)
    assert alpha_needed(1.0, 2.0, 8.0) is None  # B = √(C/2): the cohort's term alone is as large as the gain
    for cohort in (None, 8.0, 30.0):
        edge = alpha_needed(3.0, 1.4, cohort)
        assert edge is not None
        assert proof_bound(edge, 3.0, 1.4, cohort) == pytest.approx(0, abs=1e-12)
        assert proof_bound(1.01 * edge, 3.0, 1.4, cohort) > 0


@pytest.mark.parametrize(("alpha", "beta"), [(0.1, 3.0), (5.0, 0.01), (1.0, 0.05), (0.5, 1e-4)])
def test_the_theorems_p_is_taken_at_the_best_gamma(alpha: float, beta: float) -> None:
    b, cohort, clients = 1.3, 15.0, 100

    def p(gamma: float) -> float:
        """As printed, with ᾱ = α."""
        more = 1 + gamma
        found = gamma / alpha - b * more * 2**0.5 / (alpha * clients**0.5) - beta * b * more / alpha**2
        found -= beta * more**2 * b**2 / (2 * alpha**2)
        return found - beta * b**2 * more**2 * (2 * (2 * cohort) ** 0.5 + 2) / (alpha**2 * clients)

    best = max(p(i / 10_000) for i in range(10_001))
    assert theorem_bound(alpha, beta, b, cohort, clients) == pytest.approx(best, rel=1e-6)


def test_estimates_against_exact_ones() -> None:
    simulation = Named(None).simulation(resolve(SMALL))
    module = simulation.module().double()
    x, y = simulation.federation.client_samples(3)
    weight, bias = (each.detach().clone() for each in module.parameters())

    def loss(flat: torch.Tensor) -> torch.Tensor:
        w, b = flat[: weight.numel()].view_as(weight), flat[weight.numel() :]
        return torch.nn.functional.cross_entropy(simulation.federation.inputs(x).double() @ w.T + b, y)

    start = torch.cat([weight.flatten(), bias])
    hessian = torch.autograd.functional.hessian(loss, start)
    exact = float(torch.linalg.eigvalsh(hessian).abs().max())
    found = curvature(simulation, module, 3)
    assert 0.98 * exact <= found <= exact * (1 + 1e-9)


def test_the_estimates_are_those_of_the_gradients() -> None:
    """With and without the correction; of a cohort, whose size only the bounds know."""
    config = resolve(SMALL | {"participation": 0.5, "clients": 20, "method": "feddc:alpha=2.0"})
    simulation, again = Named(None).simulation(config), Named(None).simulation(config)
    first, second = estimates(simulation, [0, 2], alpha=2.0, clients=2)
    again.step()
    again.step()
    module, clients = again.module().double(), range(len(again.federation))

    def gradients() -> tuple[float, torch.Tensor]:
        rows, losses = [], []
        for x, y in map(again.federation.client_samples, clients):
            loss = torch.nn.functional.cross_entropy(module(again.federation.inputs(x).double()), y)
            parts = torch.autograd.grad(loss, list(module.parameters()))
            rows.append(torch.cat([each.flatten() for each in parts]))
            losses.append(float(loss.detach()))
        return sum(losses) / len(losses), torch.stack(rows)

    loss, rows = gradients()
    variates = again.server.variate / again.weights - again.store.gather(list(clients)).variate
    squared = float(rows.mean(0).square().sum())
    assert second.loss == pytest.approx(loss)
    assert second.gradient**2 == pytest.approx(squared)
    assert second.dissimilarity**2 == pytest.approx(float(rows.square().sum(1).mean()) / squared)
    assert second.corrected**2 == pytest.approx(float((rows + variates).square().sum(1).mean()) / squared)
    assert first.corrected == pytest.approx(first.dissimilarity), "no variate has been learned yet"
    assert second.corrected < second.dissimilarity
    beta = max(curvature(again, module, client) for client in (0, 10))
    assert second.smoothness == pytest.approx(beta)
    assert second.proof == proof_bound(2.0, second.smoothness, second.corrected, 10.0)
    assert second.theorem == theorem_bound(2.0, second.smoothness, second.corrected, 10.0, 20)
    assert second.needed == alpha_needed(second.smoothness, second.corrected, 10.0)
    again.step()
    module = again.module().double()
    assert second.observed == pytest.approx((loss - gradients()[0]) / (2 * squared))


def test_the_estimates_of_a_whole_federation() -> None:
    first, second = estimates(Named(None).simulation(resolve(SMALL)), [0, 2], alpha=0.005, clients=2)
    assert first.proof == proof_bound(0.005, first.smoothness, first.dissimilarity, None)
    assert first.loss == pytest.approx(1.6094379, rel=1e-6)  # five classes, from zeros
    assert second.round == 2
    assert second.loss < first.loss
    assert min(first.dissimilarity, second.dissimilarity) >= 1
    assert first.observed > 0 > first.proof > first.theorem


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, file = tmp_path / "run", tmp_path / "p.json"
    run.mkdir()
    (run / "config.toml").write_text(to_toml(resolve(SMALL)))
    assert feddc("theory", str(run), "--at", "0,1", "--clients", "1", "--save", str(file)) == 0
    printed = capsys.readouterr().out
    assert "p > 0 needs α >" in printed
    assert len(printed.splitlines()) == 4
    assert feddc("theory", str(file)) == 0
    assert capsys.readouterr().out == printed
    assert feddc("theory", str(file), "--save", str(file)) == 2
    assert "are kept already" in capsys.readouterr().err
    (run / "config.toml").write_text(to_toml(resolve(SMALL | {"method": "fedavg"})))
    assert feddc("theory", str(run)) == 2
    assert "the statement is about FedDC" in capsys.readouterr().err
    file.write_text("{}")
    assert feddc("theory", str(file)) == 2
    assert "is not a file of `feddc theory`" in capsys.readouterr().err


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory, as far as the command reads it."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").write_text(to_toml(resolve(SMALL)))
    return tmp_path / "run"


def test_rounds_in_any_order(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert feddc("theory", str(run), "--at", "2,0,2", "--clients", "1") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]] == ["0", "2"]


def test_the_estimates_are_printed_and_saved_into_a_new_folder(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new" / "folder" / "p.json"
    assert feddc("theory", str(run), "--at", "0", "--clients", "1", "--save", str(file)) == 0
    printed = capsys.readouterr().out
    assert feddc("theory", str(file)) == 0
    assert capsys.readouterr().out == printed

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(file))

    monkeypatch.setattr("feddc.paper.theory.write_whole", full)
    assert feddc("theory", str(run), "--at", "0", "--clients", "1", "--save", str(file)) == 1
    assert capsys.readouterr().out == printed  # what took minutes to compute is not lost


@pytest.mark.parametrize("method", ["feddc:0.005", "feddc:alpha=0.005", "feddc:0.005:correction=false"])
def test_alpha_is_that_of_the_method_however_it_is_written(
    method: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "config.toml").write_text(to_toml(resolve(SMALL | {"method": method})))
    assert feddc("theory", str(run), "--at", "0", "--clients", "1") == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("α = 0.005")


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("feddyn", [], "is a run of feddyn:alpha=0.01: the statement is about FedDC"),
        ("feddc:penalty=false", [], "without the penalty: the statement is about FedDC with its α"),
        ("feddc:alpha=0", [], "without the penalty: the statement is about FedDC with its α"),
        ("feddc", ["--at", "-1,0"], "--at must be whole numbers, 0 or more, not '-1,0'"),
        ("feddc", ["--at", "a"], "--at must be whole numbers with commas between, not 'a'"),
        ("feddc", ["--save", "."], "--save . is a folder"),
    ],
)
def test_what_is_refused(
    method: str, options: list[str], words: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "config.toml").write_text(to_toml(resolve(SMALL | {"method": method})))
    assert feddc("theory", str(run), *options) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1


def test_a_run_with_objects_of_its_own_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    federation = load("synthetic", seed=3)
    feddc_package.train("feddc", "linear", federation, rounds=1, participation=1.0, out=str(tmp_path / "run"))
    assert feddc("theory", str(tmp_path / "run"), "--at", "0") == 2
    assert "was begun from Python, with objects of its own" in capsys.readouterr().err


KEPT = sorted((Path(__file__).parents[2] / "docs" / "results" / "theory").glob("*.json"))


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_the_page_prints_what_was_kept(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert feddc("theory", str(file)) == 0
    page = (Path(__file__).parents[2] / "docs" / "theory.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out in page
