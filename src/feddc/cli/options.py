"""The options of a run, made from the fields of ``Config``, and what they and a TOML file add up to."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_args, get_origin

import click
from click.core import ParameterSource

from ..errors import ConfigError, check
from ..specs import options as options_of
from ..study.config import DATA_DEFAULTS, FIELDS, SHORTHANDS, TYPES, Config, read_toml, resolve
from .data import data_dir_option

Command = TypeVar("Command", bound=Callable[..., Any])


class Show(NamedTuple):
    """What is shown while runs are under way, and where else it is written."""

    quiet: bool = False
    as_json: bool = False
    tensorboard: bool = False


class Output(NamedTuple):
    """What the options that every command for runs has were given as."""

    out: Path | None
    config: Path | None
    data_dir: Path | None
    show: Show


def experiment_options(*, without: str) -> Callable[[Command], Command]:
    """Add an option for every key of the configuration except ``without``."""

    varying = {key for usual in DATA_DEFAULTS.values() for key in usual}  # whose default depends on the data set

    def add(command: Command) -> Command:
        for name, help in reversed(SHORTHANDS.items()):
            command = click.option(_flag(name), name, metavar="NUMBER", help=help)(command)
        for name, field in reversed(FIELDS.items()):
            if name != without:
                usual = DATA_DEFAULTS["digits"].get(name, field.default)
                shown = "" if usual is None else f"  [{'digits' if name in varying else 'default'}: {usual}]"
                kind = TYPES[name]
                choices = get_args(kind) if get_origin(kind) is Literal else ()
                metavar = "|".join(choices) or str(field.type).partition(" ")[0].upper()
                help = field.metadata["help"] + shown
                if metavar == "BOOL":
                    both = f"{_flag(name)}/--no-{_flag(name)[2:]}"
                    command = click.option(both, name, default=None, help=help)(command)
                else:
                    command = click.option(_flag(name), name, metavar=metavar, help=help)(command)
        return command

    return add


def output_options(command: Command) -> Command:
    """Add --out, --config, --data-dir, --quiet, --json and --tensorboard: the command gets them as one ``output``."""

    @functools.wraps(command)
    def packed(
        out: Path | None,
        config: Path | None,
        data_dir: Path | None,
        quiet: bool,
        as_json: bool,
        tensorboard: bool,
        **given: Any,
    ) -> Any:
        return command(output=Output(out, config, data_dir, Show(quiet, as_json, tensorboard)), **given)

    packing = data_dir_option(cast(Command, packed))
    packing = click.option("--tensorboard", is_flag=True, help="also write TensorBoard events")(packing)
    packing = click.option("--json", "as_json", is_flag=True, help="print a line of JSON per round, nothing else")(
        packing
    )
    packing = click.option("--quiet", is_flag=True, help="print nothing but errors")(packing)
    packing = click.option("--config", type=click.Path(path_type=Path), help="TOML file; options override it")(packing)
    return click.option("--out", type=click.Path(path_type=Path), help="directory to write to  [default: runs/…]")(
        packing
    )


def jobs_option(command: Command) -> Command:
    """Add --jobs."""
    help = "number of runs at a time, each in its own process with its share of the cores"
    return click.option("--jobs", type=click.IntRange(1), default=1, help=f"{help}  [default: 1]")(command)


def typed(*without: str) -> str:
    """The present command as it was typed, quoted for a shell, without these options."""
    context = click.get_current_context()
    words = ["feddc", str(context.command.name)]
    for each in context.command.params:
        name = str(each.name)
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE or name in without:
            continue
        values = context.params[name] if each.multiple else [context.params[name]]
        for value in values:
            if isinstance(each, click.Argument):
                words.append(str(value))
            elif isinstance(value, bool):
                words.append(each.opts[0] if value else each.secondary_opts[0])
            else:
                words += [each.opts[0], str(value)]
    return shlex.join(words)


def gather(given: Mapping[str, Any], config: Path | None, *, also: tuple[str, ...] = ()) -> dict[str, Any]:
    """The keys of the TOML file and, over them, the options that were given. ``also`` names keys beyond the usual."""
    known = [*FIELDS, *SHORTHANDS, *also]
    values = {} if config is None else read_toml(config, dict.fromkeys(known))
    return values | {key: value for key, value in given.items() if value is not None}


def configurations(values: Mapping[str, Any], methods: list[str]) -> list[Config]:
    """One configuration per method; a shorthand such as --alpha must apply to one of them."""
    from ..algorithms import METHODS
    from ..specs import Spec, lookup

    check(bool(methods), "methods must name at least one method")
    free: set[str] = set()  # the options that at least one method has and does not set itself
    for text in methods:
        spec = Spec.parse(text)
        free |= set(options_of(lookup("method", METHODS, spec.name))) - set(spec.options)
    for key in SHORTHANDS:
        of_use = values.get(key) is None or key in free
        check(of_use, f"--{key} has no effect on {', '.join(methods)}: none of them has an option '{key}' left to set")
    configs = [resolve({**values, "method": text.strip()}) for text in methods]
    for i, config in enumerate(configs):
        check(config.method not in [c.method for c in configs[:i]], f"method '{config.method}' is listed twice")
    return configs


def whole_numbers(name: str, text: str) -> list[int]:
    """Numbers with commas between."""
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise ConfigError(f"{name} must be whole numbers with commas between, not '{text}'") from None


def as_typed(sentence: str) -> str:
    """A sentence of the library with its options as they are typed here: ``--batch-size`` for batch_size.

    The library writes ``name must be …``, ``name=value`` or, where a name has an underscore, the name alone. A sentence
    about a file, or about something that has options of its own (``method 'feddc': alpha must be …``), stays as it is;
    so does one that begins with an option as it is typed (``--over takes KEY=A,B,… such as alpha=0.01,0.1``).
    """
    if sentence.startswith(("in ", "unknown ", "--")):
        return sentence
    names = "|".join(sorted([*FIELDS, *SHORTHANDS], key=len, reverse=True))
    sentence = re.sub(rf"^({names})(?= (must|has|needs|is|hides|lets)\b)", lambda m: _flag(m[1]), sentence)

    def with_value(found: re.Match[str]) -> str:
        name, value = found[1], found[2].strip("'")
        if value in ("True", "False"):
            return _flag(name) if value == "True" else f"--no-{_flag(name)[2:]}"
        return _flag(name) if value == "…" else f"{_flag(name)} {value}"

    sentence = re.sub(rf"(?<![\w.:/'\"-])({names})=('[^']*'|…|[\w.-]*\w)", with_value, sentence)
    long = "|".join(name for name in FIELDS if "_" in name)
    return re.sub(rf"(?<![\w.:/'\"=-])({long})(?![\w=(.'])", lambda m: _flag(m[1]), sentence)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
