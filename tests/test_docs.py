"""What the documents show is what runs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import click
import numpy as np
import pytest
from PIL import Image

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


@pytest.mark.parametrize("page", ["README.md", "docs/methods.md"])
def test_every_method_has_its_row(page: str) -> None:
    text = (PROJECT / page).read_text()
    rows = " ".join(re.findall(r"^\| (`[^|]*) \|", text, re.M))
    assert [name for name in METHODS if f"`{name}`" not in rows] == []


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


PYTHON_OF_ITS_OWN = {
    "README.md": "test_the_readme_example_runs_as_written",
    "CONTRIBUTING.md": "test_the_method_of_contributing_passes_the_contract",
    "docs/security.md": "test_the_rollback_of_the_security_page_runs_as_written",
    "docs/tasks.md": "tests/test_tasks_page.py",
}
"""Pages whose Python is run by a test that also looks at what comes out."""
PYTHON = [(page, i) for page in PAGES if page not in PYTHON_OF_ITS_OWN for i in range(len(blocks(page)))]


def write_own_data(folder: Path) -> None:
    """What docs/own-data.md describes: two hospitals with pictures of two classes, and a table."""
    rng = np.random.default_rng(0)
    for part in ("anna/cat", "anna/dog", "bert/dog", "test/cat", "test/dog"):
        (folder / "hospitals" / part).mkdir(parents=True)
        for i in range(6):
            pixels = rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "hospitals" / part / f"{i}.png")
    rows = [
        f"{age},{pressure},{age % 7 + 60},{int(pressure > 125)}" for age in range(40, 80) for pressure in (110, 140)
    ]
    (folder / "patients.csv").write_text("\n".join(["age,pressure,pulse,diagnosis", *rows]))


@pytest.mark.parametrize(("page", "block"), PYTHON)
def test_python_on_a_page_runs_as_written(
    page: str, block: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    write_own_data(tmp_path)
    exec(compile(blocks(page)[block], f"{page}, block {block}", "exec"), {"__name__": "page"})


FENCED = {
    ("docs/federation.md", "sh"): "run as real processes by tests/flower/test_documentation.py",
    ("docs/federation.md", "toml"): "written and read by tests/flower/test_documentation.py",
    ("docs/federation.md", "bash"): "run by tests/flower/test_documentation.py, where the data is there",
    ("docs/theory.md", "text"): "printed again by tests/paper/test_theory.py",
}
"""Blocks in other languages, and what tests them."""


@pytest.mark.parametrize("page", PAGES)
def test_every_fenced_block_is_tested(page: str) -> None:
    kinds = re.findall(r"^```(\w*)\n.*?^```$", (PROJECT / page).read_text(), re.M | re.DOTALL)
    assert [kind for kind in kinds if kind != "python" and (page, kind) not in FENCED] == []


OUTSIDE = {
    "docker": "needs a Docker daemon; tests/flower/test_deploy.py checks the files",
    "flwr": "Flower's own command; the same ones are run by tests/flower/test_documentation.py",
    "ray": "Ray's own command, on machines of a cluster",
    "sqlite3": "a backup, by SQLite's own command",
    "tar": "a backup",
}
"""Programs whose commands are shown and not run here, and why."""
SHOWN = {
    "README.md": ["last    rounds"],  # what make demo prints
    "CONTRIBUTING.md": ['"fedlean": FedLean,'],  # the line to add; the block above it is tested
    "docs/architecture.md": ["errors, types, specs", "cli/run.py", "runs/mine/plan-"],  # layers, calls, a folder
    "docs/choosing-alpha.md": ["α = 0.3 / (K·η)"],  # a formula
    "docs/methods.md": ["g = scale · ∇L"],  # a formula
    "docs/own-data.md": ["hospitals/  ", "age,pressure,pulse"],  # a folder, a table: written by write_own_data
}
"""The beginnings of indented blocks that are no commands."""


def indented(page: str) -> list[list[str]]:
    """The lines of every indented block on a page."""
    text = re.sub(r"^```.*?^```$", "", (PROJECT / page).read_text(), flags=re.M | re.DOTALL)
    return [block.splitlines() for block in re.findall(r"(?:^ {4}.*\n)+", text.replace("\\\n", " "), re.M)]


def check_command(line: str) -> None:
    """A command names what exists; those of feddc are looked at by another test."""
    bare = re.sub(r" +#.*$", "", line).strip().removesuffix("; done")
    words = re.sub(r"^for .*? do ", "", bare).split()
    while "=" in words[0]:  # an environment variable
        words.pop(0)
    program = words[0].rpartition("/")[2]
    if program == "make":
        assert f"\n{words[1]}:" in (PROJECT / "Makefile").read_text(), line
    elif program == "pip":
        extras = set(",".join(re.findall(r"\[([\w,]+)\]", line)).split(",")) - {""}
        known = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert extras <= set(known), line
    elif program in ("python", "python3") and words[1] == "-m":
        module = PROJECT / words[2].replace(".", "/")
        assert words[2] == "venv" or module.with_suffix(".py").exists() or (module / "__main__.py").exists(), line
    elif program in ("python", "pytest"):
        assert all((PROJECT / word).exists() for word in words[1:] if "/" in word), line
    else:
        assert program == "feddc" or program in OUTSIDE, line


@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/api.md"])  # its indented lines are options
def test_every_indented_block_is_tested(page: str) -> None:
    for lines in indented(page):
        if not any(lines[0].strip().startswith(each) for each in SHOWN.get(page, [])):
            for line in lines:
                check_command(line)


@pytest.mark.parametrize("page", PAGES)
def test_every_picture_has_its_command(page: str) -> None:
    """In the picture's own section, or in one that it links to."""
    made = re.compile(r"(?:^ {4}|`)\S*(?:feddc (?:report|reproduce|compare)|python -m|make demo)", re.M)
    for section in re.split(r"^## ", (PROJECT / page).read_text(), flags=re.M):
        for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", section):
            assert (PROJECT / page).parent.joinpath(picture).exists(), picture
            assert made.search(section) or "](#the-commands)" in section or "](quickstart.md)" in section, picture


def test_every_picture_is_shown() -> None:
    text = "".join((PROJECT / page).read_text() for page in PAGES)
    assert [file.name for file in (PROJECT / "docs/images").iterdir() if file.name not in text] == []


def test_every_public_name_is_on_the_api_page() -> None:
    page = (PROJECT / "docs/api.md").read_text()
    assert [name for name in feddc.__all__ if not re.search(rf"\b{name}\b", page)] == []


def test_every_page_is_in_the_navigation() -> None:
    nav = (PROJECT / "mkdocs.yml").read_text()
    pages = [file.relative_to(PROJECT / "docs").as_posix() for file in (PROJECT / "docs").rglob("*.md")]
    assert [page for page in pages if f": {page}\n" not in nav] == []
