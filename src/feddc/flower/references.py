"""Functions named by text, ``"package.module:function"``: a trainer process imports them, Flower's own need not."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeAlias

from ..errors import ConfigError

Reference: TypeAlias = str | Callable[..., Any]


def reference(what: str, target: Reference) -> str:
    """The text that names ``target``, which is such a text or a function or class at the top of a module."""
    text = target if isinstance(target, str) else f"{target.__module__}:{target.__qualname__}"
    module, colon, name = text.partition(":")
    if not colon or module == "__main__" or not all(part.isidentifier() for part in (*module.split("."), name)):
        raise ConfigError(
            f"{what} must be a function at the top of a module, or its name as 'package.module:function', not '{text}'"
        )
    return text


def find(text: str) -> Any:
    """What the text names."""
    module, _, name = text.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError:
        raise ConfigError(f"there is no '{name}' in module '{module}'") from None
