"""Names with options, as the command line and configuration files write them.

    dirichlet:0.3          a name and its first option
    fcn:100:50             an option that takes the rest
    feddc:alpha=0.1:form=paper
    synthetic:gamma1=1:shared_solution=false

A table maps each name to a factory (a class or function). The factory's own signature says which options there are, of
which type, and with which default: adding a name is one line in its table, and `feddc list` shows it.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import ConfigError, check, unknown

Table = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Option:
    """One option of a factory."""

    name: str
    type: Any
    default: Any


def options(factory: Callable[..., Any], given: int = 0) -> dict[str, Option]:
    """The options of ``factory``: its parameters, less the first ``given`` ones that the caller supplies."""
    hints = typing.get_type_hints(factory.__init__ if inspect.isclass(factory) else factory)
    found = list(inspect.signature(factory).parameters.values())[given:]
    return {p.name: Option(p.name, hints.get(p.name, str), p.default) for p in found}


def summary(factory: Callable[..., Any]) -> str:
    """The first line of the factory's docstring."""
    return (inspect.getdoc(factory) or "").partition("\n")[0]


def lookup(kind: str, table: Table, name: str) -> Callable[..., Any]:
    """The factory of that name, or an error that suggests the nearest."""
    if name not in table:
        raise unknown(kind, name, table)
    return table[name]


def parse(kind: str, table: Table, text: str, given: int = 0) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The factory that ``text`` names, and the options that it sets, converted to their types."""
    name, *parts = text.strip().split(":")
    factory = lookup(kind, table, name)
    known = options(factory, given)
    free = iter([option for option in known.values() if _is_plain(option.type)])
    values: dict[str, Any] = {}
    words = iter(parts)
    for word in words:
        key, equals, value = word.partition("=")
        option = _named(kind, name, known, key) if equals else _next(kind, name, free, values, text)
        check(option.name not in values, f"{kind} '{name}' has its option '{option.name}' twice")
        if _is_tuple(option.type) and not equals:
            values[option.name] = tuple(convert(option.name, int, each) for each in [word, *words])
        else:
            values[option.name] = convert(option.name, option.type, value if equals else word)
    return factory, values


def make(kind: str, table: Table, text: str, *given: Any) -> Any:
    """Build what ``text`` names: ``make("split", SPLITS, "dirichlet:0.3")``."""
    factory, values = parse(kind, table, text, len(given))
    for option in options(factory, len(given)).values():
        needed = option.default is inspect.Parameter.empty and option.name not in values
        check(not needed, f"{kind} '{text}' needs {option.name}: write {text}:{option.name}=…")
    return factory(*given, **values)


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


def _next(kind: str, name: str, free: Iterator[Option], values: Mapping[str, Any], text: str) -> Option:
    option = next((each for each in free if each.name not in values), None)
    if option is None:
        raise ConfigError(f"{kind} '{name}' does not take so many options: '{text}'")
    return option
