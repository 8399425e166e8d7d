"""What the documents show is what runs."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

import feddc
from feddc import cli
from feddc.algorithms import METHODS

PROJECT = Path(__file__).parent.parent


def blocks(file: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (PROJECT / file).read_text(), re.DOTALL)


def test_the_readme_example_runs_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    [example] = blocks("README.md")
    exec(compile(example, "README.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 6


def test_the_method_of_contributing_passes_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.algorithms import test_contract as contract

    [source] = blocks("CONTRIBUTING.md")
    namespace = {"__name__": "feddc.algorithms.fedlean", "__package__": "feddc.algorithms"}
    monkeypatch.setitem(__import__("sys").modules, "feddc.algorithms.fedlean", type(feddc)("fedlean"))
    exec(compile(source, "CONTRIBUTING.md", "exec", dont_inherit=True), namespace)
    method = namespace["FedLean"](lean=0.1)  # type: ignore[operator]
    contract.test_is_pure(method)
    contract.test_rows_equal_one_client_at_a_time(method)
    contract.test_server_state_does_not_grow_with_clients(method)
    contract.test_does_not_move_when_clients_do_not(method)
    contract.test_solves_a_quadratic(method)


def test_the_readme_names_the_eight_methods() -> None:
    text = (PROJECT / "README.md").read_text()
    eight = ("fedavg", "fedprox", "scaffold", "feddyn", "feddc", "fedadam", "fedyogi", "fedadagrad")
    assert all(name in METHODS and f"`{name}`" in text for name in eight)


def test_the_quick_start_runs_as_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    [example] = blocks("docs/quickstart.md")
    exec(compile(example, "quickstart.md", "exec"), {})


def test_the_rollback_of_the_security_page_runs_as_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    [example] = blocks("docs/security.md")
    exec(compile(example, "security.md", "exec"), {})
    assert (tmp_path / "runs" / "mine" / "undone-1.jsonl").exists()


PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{each.name}" for each in (PROJECT / "docs").glob("*.md"))]


def commands(page: str) -> list[list[str]]:
    """Every `feddc …` command on a page, as words: in blocks of code, and between backticks."""
    text = (PROJECT / page).read_text().replace("\\\n", " ")
    bare = re.sub(r" +#.*$", "", text, flags=re.M)
    lines = re.findall(r"^ {4}(?:.*?do )?(?:\S*/)?feddc ([^#\n]*?)(?:; done)?$", bare, re.M)
    lines += re.findall(r"`feddc ([^`]+)`", text)
    return [each.replace("[", " ").replace("]", " ").split() for each in lines]


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_on_a_page_exist(page: str) -> None:
    """A command that was renamed or an option that is gone is noticed here."""
    with pytest.raises(SystemExit):
        cli.main(["list"])  # adds the commands
    for words in commands(page):
        command: click.Command = cli.cli
        while isinstance(command, click.Group) and words and not words[0].startswith(("-", "…")):
            assert words[0] in command.commands, (page, words)
            command = command.commands[words.pop(0)]
        known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}
        used = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
        if not command.context_settings.get("ignore_unknown_options"):
            assert used <= known, (page, words)
