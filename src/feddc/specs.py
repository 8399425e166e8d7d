"""Names with options, as the command line and configuration files write them.

    dirichlet:0.3          a name and its first option
    fcn:100:50             an option that takes the rest
    feddc:alpha=0.1:form=paper
    synthetic:gamma1=1:shared_solution=false
    net.py:Net:width=3     your own: a file, or a module (package.module:Net), and what is defined in it

A table maps each name to a factory (a class or function). The factory's own signature says which options there are, of
which type, and with which default: adding a name is one line in its table, and `feddc list` shows it.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import ConfigError, check, unknown

Registry = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Spec:
    """A name and its options, taken apart: ``str`` puts them together again."""

    name: str
    """Of a table, or ``file.py:Name`` or ``package.module:Name`` for what is in none."""
    words: tuple[str, ...] = ()
    """The options as they were written, ``key=value`` or a value alone."""

    @classmethod
    def parse(cls, text: str) -> Spec:
        """The parts of ``text``."""
        name, *words = text.strip().split(":")
        if words and ("." in name or "/" in name):
            name = f"{name}:{words.pop(0)}"
        return cls(name, tuple(words))

    @property
    def options(self) -> dict[str, str]:
        """The options that have a name."""
        pairs = (word.partition("=") for word in self.words)
        return {key: value for key, equals, value in pairs if equals}

    @property
    def label(self) -> str:
        """What people call it: the name without the file or module that it comes from."""
        return self.name.rpartition(":")[2]

    def __str__(self) -> str:
        return ":".join([self.name, *self.words])


@dataclass(frozen=True)
class Option:
    """One option of a factory."""

    name: str
    type: Any
    default: Any


def options(factory: Callable[..., Any], given: Collection[str] = ()) -> dict[str, Option]:
    """The options of ``factory``: its parameters, less those that the program itself gives."""
    try:
        hints = typing.get_type_hints(factory.__init__ if inspect.isclass(factory) else factory)
    except (NameError, TypeError):  # annotations of one's own that cannot be evaluated: the defaults show the types
        hints = {}
    found = [p for p in inspect.signature(factory).parameters.values() if p.name not in given]
    named = [p for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return {p.name: Option(p.name, hints.get(p.name, _type_of(p.default)), p.default) for p in named}


def _type_of(default: Any) -> Any:
    return type(default) if isinstance(default, bool | int | float) else str


def summary(factory: Callable[..., Any]) -> str:
    """The first line of the factory's docstring."""
    return (inspect.getdoc(factory) or "").partition("\n")[0]


def lookup(kind: str, table: Registry, name: str) -> Callable[..., Any]:
    """The factory of that name, or an error that suggests the nearest."""
    if ":" in name:
        return _imported(kind, name)
    if name not in table:
        raise unknown(kind, name, table)
    return table[name]


def _imported(kind: str, name: str) -> Callable[..., Any]:
    """What ``file.py:Name`` or ``package.module:Name`` names; worker processes find it again under the same name."""
    place, _, attribute = name.partition(":")
    file = Path(place)
    if place.endswith(".py"):
        check(file.is_file(), f"{kind} '{name}': there is no file {place}")
        folder, module = str(file.resolve().parent), file.stem
    else:
        folder, module = str(Path.cwd()), place
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        found = importlib.import_module(module)
    except Exception as error:  # the user's file may raise anything
        raise ConfigError(f"{kind} '{name}' cannot be imported: {type(error).__name__}: {error}") from error
    at = getattr(found, "__file__", None)
    same = not place.endswith(".py") or (at is not None and Path(at).resolve() == file.resolve())
    check(same, f"{kind} '{name}': Python has another module '{module}' ({at}): give the file another name")
    factory = getattr(found, attribute, None)
    if not callable(factory):
        known = [each for each, value in vars(found).items() if callable(value) and not each.startswith("_")]
        raise unknown(f"{kind} in {place}", attribute, known)
    return typing.cast(Callable[..., Any], factory)


def parse(
    kind: str, table: Registry, text: str | Spec, given: Collection[str] = ()
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The factory that ``text`` names, and the options that it sets, converted to their types."""
    spec = text if isinstance(text, Spec) else Spec.parse(text)
    factory = lookup(kind, table, spec.name)
    known = options(factory, given)
    free = [option for option in known.values() if _is_plain(option.type)]
    values: dict[str, Any] = {}
    words, about = iter(spec.words), f"{kind} '{spec.name}': "
    for word in words:
        key, equals, value = word.partition("=")
        option = _named(kind, spec.name, known, key) if equals else _next(kind, spec, free, values)
        check(option.name not in values, f"{kind} '{spec.name}': option '{option.name}' is given twice")
        if _is_tuple(option.type) and not equals:
            values[option.name] = tuple(convert(f"{about}{option.name}", int, each) for each in [word, *words])
        else:
            values[option.name] = convert(f"{about}{option.name}", option.type, value if equals else word)
    return factory, values


def make(kind: str, table: Registry, text: str | Spec, **given: Any) -> Any:
    """Build what ``text`` names: ``make("split", SPLITS, "dirichlet:0.3")``.

    ``given`` is what the program itself passes to a factory that has a parameter of that name.
    """
    factory, values = parse(kind, table, text, given)
    for option in options(factory, given).values():
        needed = option.default is inspect.Parameter.empty and option.name not in values
        check(not needed, f"{kind} '{text}' needs {option.name}: write {text}:{option.name}=…")
    asked = inspect.signature(factory).parameters
    try:
        return factory(**{name: value for name, value in given.items() if name in asked}, **values)
    except ConfigError as error:
        if str(error).partition(" ")[0] not in options(factory, given):
            raise
        named = text.name if isinstance(text, Spec) else Spec.parse(text).name
        raise ConfigError(f"{kind} '{named}': {error}") from error


def convert(name: str, kind: Any, text: str) -> Any:
    """``text`` as a value of type ``kind`` (int, float, bool, str, a Literal, or one of them or None)."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        members = [each for each in typing.get_args(kind) if each is not type(None)]
        return None if text.lower() == "none" else convert(name, members[0], text)
    if typing.get_origin(kind) is typing.Literal:
        allowed = typing.get_args(kind)
        check(text in allowed, f"{name} must be one of {', '.join(map(str, allowed))}, not '{text}'")
        return text
    if kind is bool:
        check(text.lower() in ("true", "false"), f"{name} must be true or false, not '{text}'")
        return text.lower() == "true"
    if _is_tuple(kind):
        return tuple(convert(name, int, each) for each in text.split("x"))
    if kind not in (int, float):
        return text
    try:
        return kind(text)
    except ValueError:
        noun = "a whole number" if kind is int else "a number"
        raise ConfigError(f"{name} must be {noun}, not '{text}'") from None


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_plain(kind: Any) -> bool:
    """Whether text can be converted to ``kind``; an object such as a server optimiser cannot be written in one word."""
    return kind in (int, float, bool, str) or typing.get_origin(kind) is not None


def _is_tuple(kind: Any) -> bool:
    return typing.get_origin(kind) is tuple


def _named(kind: str, name: str, known: Mapping[str, Option], key: str) -> Option:
    check(bool(known), f"{kind} '{name}' has no options, so '{key}' cannot be set")
    if key not in known:
        raise unknown(f"option of {kind} '{name}'", key, known)
    return known[key]


def _next(kind: str, spec: Spec, free: list[Option], values: Mapping[str, Any]) -> Option:
    option = next((each for each in free if each.name not in values), None)
    if option is None:
        raise ConfigError(f"{kind} '{spec.name}' takes at most {len(free)} option{'s' * (len(free) != 1)}: '{spec}'")
    return option
